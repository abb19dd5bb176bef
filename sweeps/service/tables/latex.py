"""A table as LaTeX for a paper: booktabs rules, deviations as subscripts, notes under the table."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from mucon.metrics.catalogue import Unit
from sweeps.service.stats.summary import Summary
from sweeps.service.tables.table import Row, Table
from sweeps.service.text import printable

_SPECIAL = {
    ">=": r"$\geq$",
    "<=": r"$\leq$",
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "[": "{[}",
    "*": "{*}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "–": "--",
    "\n": " ",
}
_SYMBOLS = {
    **{"≥": r"\geq", "≤": r"\leq", "≠": r"\neq", "≈": r"\approx", "∞": r"\infty", "→": r"\rightarrow"},
    **{"←": r"\leftarrow", "−": "-", "·": r"\cdot", "µ": r"\mu", "°": r"^{\circ}", "²": "^{2}", "³": "^{3}"},
    "†": r"^{\dagger}",
}
_SIGNS = {"…": r"\dots{}", "“": "``", "”": "''", "‘": "`", "’": "'", "—": "---", "\xa0": " ", "ß": r"\ss{}"}
_GREEK = re.compile(
    "GREEK (?:SMALL LETTER (ALPHA|BETA|GAMMA|DELTA|EPSILON|ZETA|ETA|THETA|IOTA|KAPPA|LAMBDA|MU|NU|XI|PI|RHO|SIGMA|TAU|"
    "UPSILON|PHI|CHI|PSI|OMEGA)|CAPITAL LETTER (GAMMA|DELTA|THETA|LAMBDA|XI|PI|SIGMA|UPSILON|PHI|PSI|OMEGA))"
)
_KEPT = "æÆœŒøØåÅłŁ"
"""Letters without an accent that every font of pdflatex has."""
_ANY_SPECIAL = re.compile("|".join([*map(re.escape, _SPECIAL), r"[^\x00-\x7f]"]))


def latex(table: Table, data: str = "") -> str:
    """The table as a `table` environment with the label `tab:NAME`; requires the packages booktabs and graphicx.

    The caption names the data, the validation part if that is scored, the number of seeds and what the numbers are. A
    table wider than the text is scaled down. All notes precede it as comments; the notes about data and tests and the
    number of cells without a value are printed below it.

    Args:
        table: the table.
        data: name of the data set.
    """
    alignment = "l" * len(table.label_heads) + "c" * (len(table.columns) + 1)
    lines = [
        r"% needs \usepackage{booktabs,graphicx}",
        *(f"% {' '.join(note.split())}" for note in table.notes),
        r"\begin{table}[t]",
        r"\centering\small",
        rf"\caption{{{_caption(table, data)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\setlength{\tabcolsep}{4pt}",
        r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        " & ".join(escaped(head) for head in table.heads) + r" \\",
        r"\midrule",
        *_rows(table),
        r"\bottomrule",
        r"\end{tabular}}",
        *_notes_under(table),
        r"\end{table}",
    ]
    return "\n".join([*lines, ""])


def _caption(table: Table, data: str) -> str:
    """Title, data set, number of seeds and what the numbers are."""
    own = [row for row in table.rows if row.kind == "row"]
    counts = sorted({summary.n for row in own for summary in row.summaries if summary})
    title = escaped(table.title.rstrip("."))
    parts = [title] + ([f"Data: {escaped(data)}"] if data else [])
    parts += ["Scores on the validation part of the training data"] if table.part == "validation" else []
    if counts:
        seeds = f"$n = {counts[0]}$" if len(counts) == 1 else f"$n = {counts[0]}$ to ${counts[-1]}$"
        values = r"Mean\textsubscript{$\pm$std}" if counts[-1] > 1 else "Values"
        parts.append(f"{values} over {seeds} seed{'s' * (counts[-1] > 1)}")
    return ". ".join(parts) + "."


def escaped(text: str) -> str:
    r"""Escapes all characters that LaTeX would interpret; those that pdflatex does not have are replaced.

    >>> print(escaped("L_mu, 10 % & {49.0±2.0}, p >= 0.05"))
    L\_mu, 10 \% \& \{49.0$\pm$2.0\}, p $\geq$ 0.05
    """
    return _ANY_SPECIAL.sub(lambda match: _SPECIAL.get(match.group()) or _not_ascii(match.group()), printable(text))


def _not_ascii(sign: str) -> str:
    r"""A character in a form that pdflatex has in its default fonts: itself, a symbol, or else its number.

    >>> [_not_ascii(sign) for sign in "é≥λ中"]
    ['é', '$\\geq$', '$\\lambda$', '{[}U+4E2D]']
    """
    greek = _GREEK.fullmatch(unicodedata.name(sign, "").replace("LAMDA", "LAMBDA"))
    if sign in _SIGNS:
        return _SIGNS[sign]
    if sign in _SYMBOLS:
        return f"${_SYMBOLS[sign]}$"
    if greek:
        return rf"$\{greek[1].lower() if greek[1] else greek[2].capitalize()}$"
    has_accent = len(unicodedata.normalize("NFD", sign)) == 2 and sign < "\u017f"
    return sign if sign in _KEPT or has_accent else f"{{[}}U+{ord(sign):04X}]"


def _rows(table: Table) -> Iterator[str]:
    for row, before in zip(table.rows, (None, *table.rows), strict=False):
        if before is not None and (before.kind == "row") != (row.kind == "row"):
            yield r"\midrule"
        yield (" & ".join((*_labels(row), *_values(table, row), escaped(row.seeds_text))) + r" \\")


def _labels(row: Row) -> Iterator[str]:
    """One label per label column; the long label of a baseline or ceiling row spans them all."""
    labels = [escaped(label) for label in row.marked_labels]
    if row.is_from_elsewhere:
        labels = [rf"\textit{{{label}}}" if label else "" for label in labels]
    if row.is_main:
        labels[0] = rf"\textbf{{{labels[0]}}}"
    if row.kind != "row" and len(labels) > 1 and not any(labels[1:]):
        yield rf"\multicolumn{{{len(labels)}}}{{l}}{{{labels[0]}}}"
    else:
        yield from labels


def _values(table: Table, row: Row) -> Iterator[str]:
    for summary, column, bold in zip(row.summaries, table.columns, row.bold, strict=True):
        yield "--" if summary is None else _value(summary, column.shown_unit, bold)


def _value(summary: Summary, unit: Unit, bold: bool) -> str:
    mean, std = summary.parts(unit)
    text = rf"\textbf{{{mean}}}" if bold else mean
    return text if std is None else rf"{text}\textsubscript{{$\pm${std}}}"


def _notes_under(table: Table) -> Iterator[str]:
    notes = list(table.notes.about)
    if n_missing := table.notes.n_missing:
        cells = "1 cell without a value is" if n_missing == 1 else f"{n_missing} cells without a value are"
        notes.append(f"{cells} excluded from the means")
    if notes:
        yield r"\par\smallskip"
        yield r"\parbox{\linewidth}{\footnotesize\raggedright " + r"\par ".join(f"{escaped(n)}." for n in notes) + "}"
