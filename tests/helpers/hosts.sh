# Hosts 10.77.0.1, 10.77.0.2, ... that an operator at 10.77.0.254 reaches by ssh, all on one machine. Runs as process 1 of new
# namespaces of processes, mounts and network, and ends with its input: the kernel then removes all that it has made.
#   hosts.sh SHARED NUMBER      the operator; SHARED is /mnt for it and all hosts
#   hosts.sh host NUMBER        one host
set -eu

# What is written to /tmp, /run, /dev/shm and the home is seen by this host alone.
seclude() {
    mount -t tmpfs none /run
    mount -t tmpfs none /dev/shm
    mkdir /run/sshd /run/netns /run/tmp /run/home /run/work-tmp /run/work-home
    mount -t overlay -o lowerdir=/tmp,upperdir=/run/tmp,workdir=/run/work-tmp none /tmp
    mount -t overlay -o "lowerdir=$HOME,upperdir=/run/home,workdir=/run/work-home" none "$HOME"
    rm -rf ~/.ray ~/.ssh ~/.bashrc /tmp/ray
}

if [ "$1" = host ]; then
    hostname "h$2"
    ip link set lo up
    seclude
    cd /mnt
    exec /usr/sbin/sshd -D -e -f ssh/sshd_config 2>"ssh/h$2.log"
fi

mount --bind "$1" /mnt
cd /mnt
mkdir ssh
ssh-keygen -q -t ed25519 -N '' -f ssh/host_key
ssh-keygen -q -t ed25519 -N '' -f ssh/key
cat >ssh/sshd_config <<END
HostKey /mnt/ssh/host_key
AuthorizedKeysFile /mnt/ssh/key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
PidFile none
MaxSessions 50
MaxStartups 100
END
ip link set lo up
ip link add br0 type bridge
ip address add 10.77.0.254/24 dev br0
ip link set br0 up
ip route add default dev br0 # Ray asks for the address on the way out
for i in $(seq "$2"); do
    unshare --net --pid --fork --kill-child --mount --uts --mount-proc --propagation private bash "$0" host "$i" &
    until namespace=$(pgrep -P $!) && [ "$(readlink "/proc/$namespace/ns/net")" != "$(readlink /proc/self/ns/net)" ]; do
        sleep 0.1
    done
    ip link add "v$i" type veth peer name eth0 netns "$namespace"
    ip link set "v$i" master br0 up
    nsenter --target "$namespace" --net sh -c "ip address add 10.77.0.$i/24 dev eth0 && ip link set eth0 up &&
        ip route add default via 10.77.0.254"
    until [ -e "ssh/h$i.log" ]; do sleep 0.1; done
done
seclude
mkdir ~/.ssh
mv ssh/key ~/.ssh/id_ed25519
echo ready
cat >/dev/null
