"""What runs contain, made from the folders of trials and sweeps; knows no server."""
