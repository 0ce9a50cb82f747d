"""The fleet's page: plain HTML and SVG, the same bytes for the same rows. It must not know Spark."""

import html
import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

from lodestore import __version__, _lodestore
from lodestore._questions import _profile
from lodestore._units import show_size

Rows = List[Dict[str, Any]]
_SHARES = (0.1, 0.5, 0.9, 0.99, 1.0)
_MOST_ROWS = 20
_GIB = 1 << 30
_DAY_S = 86_400

_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}svg text{font-size:11px;fill:#444}rect{fill:#2f6f9f}"""


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest of the sorted values that so large a share of them does not exceed."""
    return values[max(0, math.ceil(share * len(values)) - 1)]


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(title)}</th>" for title in titles)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>\n"


def _bars(title: str, bars: Sequence[Tuple[str, float]], unit: str) -> str:
    """Bars from left to right, with their names below and numbers above."""
    if not bars:
        return ""
    width, height = 48 * len(bars) + 20, 180
    most = max(value for _, value in bars) or 1.0
    parts = []
    for at, (name, value) in enumerate(bars):
        tall = 120 * value / most
        left = 48 * at + 10
        parts.append(
            f'<rect x="{left}" y="{150 - tall:.1f}" width="40" height="{tall:.1f}"/>'
            f'<text x="{left + 20}" y="{145 - tall:.1f}" text-anchor="middle">{value:g}</text>'
            f'<text x="{left + 20}" y="165" text-anchor="middle">{html.escape(name)}</text>'
        )
    label = html.escape(f"{title}, {unit}")
    return f'<figure><svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{label}">{"".join(parts)}</svg><figcaption>{label}</figcaption></figure>\n'


def _quantiles(name: str, values: Sequence[float], show: Any) -> List[str]:
    ordered = sorted(values)
    return [name, *(show(quantile(ordered, share)) for share in _SHARES)]


def _titles(what: str) -> List[str]:
    return [what, *("largest" if share == 1 else f"{100 * share:g} % have at most" for share in _SHARES)]


def _needs(curves: Rows, prices: Tuple[float, float]) -> str:
    needed = [row["needed_blocks"] * row["block_bytes"] for row in curves]
    most = [row["hit_ratios"][-1] if row["hit_ratios"] else 0.0 for row in curves]
    written = [row["written_bytes"] for row in curves]
    text = "<h2>What volumes need</h2>\n<p>A volume's need is the smallest cache that has all the hits there are to have.</p>\n"
    text += _table(
        _titles("a volume"),
        [
            _quantiles("need", needed, lambda value: show_size(int(value))),
            _quantiles("hits with it", most, lambda value: f"{100 * value:.1f} %"),
            _quantiles("bytes written", written, lambda value: show_size(int(value))),
        ],
    )
    powers: Dict[int, int] = {}
    for value in needed:
        power = max(20, math.ceil(math.log2(value))) if value > 0 else 0
        powers[power] = powers.get(power, 0) + 1
    bars = [("none" if power == 0 else f"{show_size(1 << power)}", float(powers[power])) for power in sorted(powers)]
    text += _bars("Volumes by need, up to", bars, "volumes")
    total = sum(needed)
    dram, ssd = (price * total / _GIB for price in prices)
    text += f"<p>All of it together is {show_size(total)}: {dram:,.2f} usd as DRAM, {ssd:,.2f} usd as SSD.</p>\n"
    sampled = sum(1 for row in curves if row["rate"] < 1)
    if sampled:
        text += f"<p>Of {sampled} volumes a part of the blocks was followed; their curves are estimates.</p>\n"
    return text


def _more(sizes: Rows, prices: Tuple[float, float]) -> str:
    hosts: Dict[str, Rows] = {}
    for row in sizes:
        hosts.setdefault(row["host"], []).append(row)
    gains = []
    for host in sorted(hosts):
        rows = hosts[host]
        accesses = sum(row["accesses"] for row in rows)
        now = math.fsum(row["hits"] for row in rows)
        more = math.fsum(row["hits_with_gib_more"] for row in rows)
        gains.append((host, len(rows), rows[0]["host_bytes"], accesses, now, more))
    gains.sort(key=lambda gain: (gain[4] - gain[5], gain[0]))
    accesses = sum(gain[3] for gain in gains)
    now, more = math.fsum(gain[4] for gain in gains), math.fsum(gain[5] for gain in gains)
    text = "<h2>What one more GiB a host buys</h2>\n"
    if accesses:
        dram, ssd = (price * len(gains) for price in prices)
        text += (
            f"<p>{len(gains)} hosts serve {100 * now / accesses:.2f} % of all accesses from their caches; with a GiB more each it "
            f"is {100 * more / accesses:.2f} %, for {dram:,.2f} usd of DRAM or {ssd:,.2f} usd of SSD.</p>\n"
        )
    show = [
        [host, str(count), show_size(size), f"{_percent(before, of)}", f"{_percent(after, of)}", f"{after - before:,.0f}"]
        for host, count, size, of, before, after in gains[:_MOST_ROWS]
    ]
    text += _table(["host", "volumes", "cache", "hits", "with a GiB more", "more hits"], show)
    return text + _rest(len(gains))


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"


def _rest(count: int) -> str:
    return f"<p>and {count - _MOST_ROWS} hosts that gain less.</p>\n" if count > _MOST_ROWS else ""


def _wear(replays: Rows) -> str:
    cost = math.fsum(row["cost_usd"] for row in replays)
    written = sum(row["ssd_written_bytes"] for row in replays)
    daily = [row["ssd_written_bytes"] * _DAY_S / row["span_s"] for row in replays if row["span_s"]]
    text = "<h2>What the fleet costs and wears</h2>\n"
    text += f"<p>The levels of {len(replays)} hosts cost {cost:,.2f} usd. Their SSDs take {show_size(written)} in the traces' time.</p>\n"
    table = []
    if daily:
        table.append(_quantiles("SSD writes a day", daily, lambda value: show_size(int(value))))
    for name, key, show in (
        ("reads that hit", "hit_ratio", lambda value: f"{100 * value:.1f} %"),
        ("mean latency", "mean_latency_us", lambda value: f"{value:,.0f} us"),
        ("SSD life", "ssd_life_years", lambda value: f"{value:,.1f} years" if value < 100 else "over 100 years"),
    ):
        known = [row[key] for row in replays if row[key] is not None]
        if known:
            table.append(_quantiles(name, known, show))
    text += _table(_titles("a host"), table)
    lives = sorted((row for row in replays if row["ssd_life_years"] is not None), key=lambda row: (row["ssd_life_years"], row["host"]))
    rows = [[row["host"], f"{row['ssd_life_years']:,.2f}", show_size(row["ssd_written_bytes"]), str(row["volumes"])] for row in lives[:_MOST_ROWS]]
    return text + (_table(["host whose SSD lasts least", "years", "SSD writes", "volumes"], rows) if rows else "")


def page_of(curves: Rows, sizes: Optional[Rows], replays: Optional[Rows], devices: str, title: str) -> str:
    """The page of rows in any order."""
    prices = _lodestore.prices(*_profile(devices))
    curves = sorted(curves, key=lambda row: (row["trace"], row["volume"]))
    requests, read, written = (sum(row[key] for row in curves) for key in ("requests", "read_bytes", "written_bytes"))
    traces = len({row["trace"] for row in curves})
    body = (
        f"<h1>{html.escape(title)}</h1>\n<p>{len(curves)} volumes of {traces} traces: {requests:,} requests, {show_size(read)} read, "
        f"{show_size(written)} written. Prices of devices '{html.escape(devices)}'.</p>\n"
    )
    if curves:
        body += _needs(curves, prices)
    if sizes:
        body += _more(sorted(sizes, key=lambda row: (row["host"], row["trace"], row["volume"])), prices)
    if replays:
        body += _wear(sorted(replays, key=lambda row: str(row["host"])))
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title><style>{_STYLE}</style></head>'
        f"<body>\n{body}<footer><p>Lodestore {__version__}</p></footer>\n</body></html>\n"
    )
