"""TCFPN and ED-TCN: networks that pool time and stretch it again, with full supervision of a labelled share.

Unlabelled videos are never visited. The network of TCFPN is also that of the weak method `isba`.
"""

from mucon.method import Method
from mucon.methods.encoder_decoder.config import RECIPES_OF_ED_TCN, RECIPES_OF_TCFPN, EdTcnConfig, TcfpnConfig
from mucon.methods.frames import FrameMethod

TCFPN: Method[TcfpnConfig] = FrameMethod("tcfpn", TcfpnConfig, RECIPES_OF_TCFPN)
ED_TCN: Method[EdTcnConfig] = FrameMethod("ed_tcn", EdTcnConfig, RECIPES_OF_ED_TCN)
