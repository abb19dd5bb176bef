"""The segment branch: teacher forcing against a loop over torch's own modules, and greedy decoding."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn import functional

from mucon.config import SegmentBranchConfig
from mucon.model.segment_branch import Decoded, SegmentBranch
from tests.helpers.refusals import refused

N = 3
START = N + 1


def branch(seed: int = 0) -> SegmentBranch:
    torch.manual_seed(seed)
    return SegmentBranch(6, N, SegmentBranchConfig(hidden=5)).double().eval()


def by_the_equations(model: SegmentBranch, latent: torch.Tensor, symbols: list[int]):
    """Section 4.3 and reference: embedding and attention concatenated, one step after the other."""
    states, (last_hidden, last_cell) = model.encoder(latent[:, None])
    states = states[:, 0]
    hidden = model.initial_hidden(torch.cat((last_hidden[0, 0], last_hidden[1, 0])))
    cell = model.initial_cell(torch.cat((last_cell[0, 0], last_cell[1, 0])))
    logits, log_lengths = [], []
    for symbol in symbols:
        energy = torch.tanh(states @ model.attention_keys + model.attention_query(hidden)) @ model.attention_score
        attended = torch.softmax(energy, 0) @ states
        embedded = functional.relu(model.embedding(torch.tensor(symbol)))
        entry = functional.relu(model.combine(torch.cat((embedded, attended))))
        hidden, cell = (x[0] for x in model.decoder(entry[None], (hidden[None], cell[None])))
        logits.append(model.transcript_head(hidden))
        log_lengths.append(model.length_head(torch.cat((entry, logits[-1]))))
    return torch.stack(logits), torch.cat(log_lengths)


@pytest.mark.parametrize("n_latent", [1, 2, 7])
@pytest.mark.parametrize("transcript", [[1], [0, 2, 2, 1, 0]])
def test_teacher_forcing_is_the_papers_sequence_of_steps(transcript, n_latent):
    model = branch()
    latent = torch.randn(n_latent, 6, dtype=torch.float64)
    logits, log_lengths = model.teacher_forced(latent, torch.tensor([START, *transcript]))
    expected_logits, expected_lengths = by_the_equations(model, latent, [START, *transcript])
    torch.testing.assert_close(logits, expected_logits)
    torch.testing.assert_close(log_lengths, expected_lengths[:-1])


def test_every_parameter_learns_from_the_two_outputs():
    model = branch()
    logits, log_lengths = model.teacher_forced(torch.randn(4, 6, dtype=torch.float64), torch.tensor([START, 0, 1, 2]))
    (logits.sin().sum() + log_lengths.sum()).backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())


@pytest.mark.parametrize("seed", range(8))
def test_greedy_decoding_feeds_each_most_likely_symbol_to_the_next_step(seed):
    model = branch(seed)
    latent = torch.randn(5, 6, dtype=torch.float64)
    decoded = model.greedy(model.encode(latent), 6)
    logits, log_lengths = by_the_equations(model, latent, [START, *decoded.transcript])
    named = logits.argmax(1).tolist()
    if decoded.cut:
        assert (list(decoded.transcript), N not in named) == (named[:-1], True)
        assert len(decoded.transcript) == 6
    else:
        assert [*decoded.transcript, N] == named
    torch.testing.assert_close(decoded.log_lengths, log_lengths[:-1])


def with_end_bias(value: float) -> SegmentBranch:
    model = branch()
    with torch.no_grad():
        model.transcript_head[-1].bias[N] = value
    return model


def test_an_end_symbol_that_comes_first_gives_an_empty_transcript():
    model = with_end_bias(1e3)
    decoded = model.greedy(model.encode(torch.randn(3, 6, dtype=torch.float64)), 4)
    assert decoded.transcript == ()
    assert decoded.log_lengths.shape == (0,)
    assert not decoded.cut


def test_an_end_symbol_that_never_comes_cuts_the_transcript():
    model = with_end_bias(-1e3)
    decoded = model.greedy(model.encode(torch.randn(3, 6, dtype=torch.float64)), 4)
    assert len(decoded.transcript) == len(decoded.log_lengths) == 4
    assert decoded.cut


def test_a_transcript_of_exactly_the_allowed_length_is_not_cut():
    model, latent, whole = lively_branch_that_ends()
    exact = model.greedy(model.encode(latent), len(whole.transcript))
    assert (exact.transcript, exact.cut) == (whole.transcript, False)
    short = model.greedy(model.encode(latent), len(whole.transcript) - 1)
    assert (short.transcript, short.cut) == (whole.transcript[:-1], True)


def lively_branch_that_ends() -> tuple[SegmentBranch, torch.Tensor, Decoded]:
    """The first network, its weights enlarged so that its symbols vary, that names something and then ends."""
    latent = torch.randn(5, 6, dtype=torch.float64)
    for seed in range(100):
        model = branch(seed)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(4)
        decoded = model.greedy(model.encode(latent), 12)
        if decoded.transcript and not decoded.cut:
            return model, latent, decoded
    raise AssertionError("none of 100 networks ends by itself")


@pytest.mark.parametrize(("name", "value"), [("hidden", 1), ("dropout", 1.0), ("dropout", -0.1)])
def test_a_segment_branch_that_cannot_be_built_is_refused_with_the_value(name, value):
    with refused("range", f"segment_branch.{name}", value, n=1):
        SegmentBranchConfig(**{name: value})


def test_end_and_start_symbol_are_not_actions():
    branch = SegmentBranch(4, 3, SegmentBranchConfig(hidden=4))
    assert (branch.end_symbol, branch.start_symbol) == (3, 4)
    assert branch.embedding.num_embeddings == 5


@torch.no_grad()
def every_transcript(model: SegmentBranch, latent: torch.Tensor, at_most: int) -> dict[tuple[int, ...], float]:
    """The log probability of every transcript up to a number of actions, with one teacher-forced pass each."""
    found = {}
    for length in range(at_most + 1):
        for actions in itertools.product(range(model.n_actions), repeat=length):
            symbols = torch.tensor([model.n_actions + 1, *actions])
            log_probs = torch.log_softmax(model.teacher_forced(latent, symbols)[0], dim=1)
            targets = torch.tensor([*actions, model.n_actions])
            found[actions] = float(log_probs.gather(1, targets[:, None]).sum())
    return found


def test_a_wide_beam_finds_the_most_likely_transcripts_and_their_lengths():
    model, latent = (
        with_end_bias(0.5),
        torch.randn(4, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64),
    )
    oracle = every_transcript(model, latent, 3)
    best = sorted(oracle, key=lambda actions: -oracle[actions])[:5]
    found = model.beam(model.encode(latent), 3, width=200)
    assert [one.transcript for one in found[:5]] == best
    for one in found[:5]:
        assert one.log_prob == pytest.approx(oracle[one.transcript], abs=1e-9)
        symbols = torch.tensor([model.n_actions + 1, *one.transcript])
        torch.testing.assert_close(one.log_lengths, model.teacher_forced(latent, symbols)[1])
    assert len({one.transcript for one in found}) == len(found)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_a_beam_has_at_most_its_width_in_falling_order(width):
    model, latent = (
        with_end_bias(0.0),
        torch.randn(5, 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64),
    )
    found = model.beam(model.encode(latent), 4, width)
    assert 1 <= len(found) <= width
    log_probs = [one.log_prob for one in found]
    assert log_probs == sorted(log_probs, reverse=True)
    assert all(len(one.transcript) == len(one.log_lengths) <= 4 for one in found)


def test_a_beam_that_ends_at_once_has_the_empty_transcript_first():
    model = with_end_bias(1e3)
    found = model.beam(model.encode(torch.randn(3, 6, dtype=torch.float64)), 4, 3)
    assert found[0].transcript == ()


@pytest.mark.parametrize("n_latent", [1, 6])
@pytest.mark.parametrize("seed", range(4))
def test_free_running_is_teacher_forcing_with_its_own_symbols(seed: int, n_latent: int):
    model, latent = lively(seed), torch.randn(n_latent, 6, dtype=torch.float64)
    logits, log_lengths, own = model.free_running(latent, 5)
    assert (logits.shape, log_lengths.shape, own.shape, own.dtype) == ((6, N + 1), (5,), (5,), torch.int64)
    forced_logits, forced_lengths = model.teacher_forced(latent, torch.cat((torch.tensor([START]), own)))
    torch.testing.assert_close(logits, forced_logits)
    torch.testing.assert_close(log_lengths, forced_lengths)
    assert own.tolist() == logits[:-1, :N].argmax(1).tolist()


@pytest.mark.parametrize("seed", range(4))
def test_free_running_in_training_is_teacher_forcing_with_the_same_dropout(seed: int):
    """The embedded symbols' mask is the first that either draws, and of the same size."""
    model, latent = lively(seed).train(), torch.randn(4, 6, dtype=torch.float64)
    torch.manual_seed(seed)
    logits, log_lengths, own = model.free_running(latent, 5)
    torch.manual_seed(seed)
    forced_logits, forced_lengths = model.teacher_forced(latent, torch.cat((torch.tensor([START]), own)))
    torch.testing.assert_close(logits, forced_logits)
    torch.testing.assert_close(log_lengths, forced_lengths)
    assert own.tolist() == logits[:-1, :N].argmax(1).tolist()


def lively(seed: int) -> SegmentBranch:
    """Weights enlarged so that symbols vary."""
    model = branch(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return model


def test_free_running_never_chooses_the_end_symbol():
    model = with_end_bias(1e3)
    latent = torch.randn(3, 6, dtype=torch.float64)
    logits, _, own = model.free_running(latent, 4)
    assert (logits.argmax(1) == N).all()
    assert ((own >= 0) & (own < N)).all()
    assert model.greedy(model.encode(latent), 4).transcript == ()


def test_free_running_gives_the_actions_of_greedy_decoding_that_does_not_end():
    model, latent = with_end_bias(-1e3), torch.randn(5, 6, dtype=torch.float64)
    decoded = model.greedy(model.encode(latent), 6)
    _, log_lengths, own = model.free_running(latent, 6)
    assert tuple(own.tolist()) == decoded.transcript
    torch.testing.assert_close(log_lengths, decoded.log_lengths)


def test_a_gradient_runs_through_free_running_as_far_as_its_choices_stay():
    model = lively(1)
    latent = torch.randn(3, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64, requires_grad=True)
    own = model.free_running(latent, 3)[2].tolist()

    def outputs(latent: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits, log_lengths, chosen = model.free_running(latent, 3)
        assert chosen.tolist() == own
        return logits, log_lengths

    assert torch.autograd.gradcheck(outputs, latent)
    forced = model.teacher_forced(latent, torch.tensor([START, *own]))
    parameters = list(model.parameters())
    gradients = [
        torch.autograd.grad([y.sin().sum() for y in given], parameters, retain_graph=True)
        for given in (outputs(latent), forced)
    ]
    assert any(gradient.any() for gradient in gradients[0])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_greedy_decoding_returns_the_log_probability_of_its_transcript():
    model, latent = (
        with_end_bias(0.5),
        torch.randn(4, 6, generator=torch.Generator().manual_seed(3), dtype=torch.float64),
    )
    decoded = model.greedy(model.encode(latent), 3)
    assert not decoded.cut
    assert decoded.log_prob == pytest.approx(every_transcript(model, latent, 3)[decoded.transcript], abs=1e-9)
