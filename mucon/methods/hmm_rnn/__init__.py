"""The HMM/RNN: actions are sequences of states, which a window GRU learns from alternating alignments.

Source: Richard, Kuehne and Gall, "Weakly Supervised Action Learning with RNN Based Fine-To-Coarse Modeling",
CVPR 2017.
"""

from mucon.method import Method
from mucon.methods.hmm_rnn.config import HmmConfig, demo
from mucon.methods.hmm_rnn.learner import HmmLearner
from mucon.methods.hmm_rnn.predictor import HmmPredictor
from mucon.methods.weak import WeakMethod

HMM_RNN: Method[HmmConfig] = WeakMethod(
    "hmm_rnn",
    HmmConfig,
    {"weak": HmmConfig, "demo": demo, "breakfast": HmmConfig},
    HmmLearner,
    main="full",
    predictor=HmmPredictor,
)
