/* Axes: the rules of axis.rs once more, for charts that change. A test compares what is drawn by the two. */
const { placeAcross, placeUpright, rangeOf, within, toPixel, toValue, widthOf, shorten, flow } = (() => {
  const MOST_TICKS = 12, LEAST_SPAN = 1e-6, MIN_NUMBER = 1e-30;
  const isBinary = unit => unit.startsWith('bytes');

  /* ---- How wide text is: the estimate of text.rs ---- */

  function charWidth(c) {
    if ("ijl.,:;|!'".includes(c)) return 0.33;
    if ('ftr ()[]-/'.includes(c)) return 0.42;
    if ('mwMW%@'.includes(c)) return 0.97;
    if (/[0-9a-z$_?]/.test(c)) return 0.63;
    if (/[A-Z+<>=~#&]/.test(c)) return 0.78;
    const code = c.codePointAt(0);
    return code >= 0x80 && code <= 0x1fff ? 0.72 : c === '…' ? 1 : code < 0x80 ? 0.64 : 1.1;
  }

  const widths = new Map();
  function widthOf(text, font) {
    if (!widths.has(text)) widths.set(text, [...text].reduce((sum, c) => sum + charWidth(c), 0));
    return widths.get(text) * font;
  }

  function shorten(text, most, font) {
    if (widthOf(text, font) <= most) return text;
    const chars = [...text];
    let head = 0, tail = chars.length, left = most / font - charWidth('…');
    while (head < tail) {
      const fromEnd = (head + chars.length - tail) % 3 === 2;
      left -= charWidth(fromEnd ? chars[tail - 1] : chars[head]);
      if (left < 0) break;
      if (fromEnd) tail -= 1; else head += 1;
    }
    return chars.slice(0, head).join('') + '…' + chars.slice(tail).join('');
  }

  /* ---- Ranges ---- */

  /* A number beside a value, moved to where such numbers can be. */
  const within = (unit, value, beside) =>
    (unit === 'ratio' ? clamp(beside, Math.min(value, 0), Math.max(value, 1)) : beside);

  /* The range that shows these values on an axis. */
  function rangeOf(axis, values) {
    let low = Infinity, high = -Infinity, positive = Infinity;
    for (const value of axis.least ? [...axis.least, ...values] : values) {
      if (value < low) low = value;
      if (value > high) high = value;
      if (value >= MIN_NUMBER && value < positive) positive = value;
    }
    if (axis.log) low = positive;
    if (low === Infinity) return null;
    const least = within(axis.unit, low, -Number.MAX_VALUE), most = within(axis.unit, high, Number.MAX_VALUE);
    if (axis.log) {
      if (high / low < 1.5) [low, high] = [low / 2, high * 2];
    } else {
      if (!axis.least && low > 0 && low < 0.6 * high) low = 0;
      if (!axis.least && high < 0 && high > 0.6 * low) high = 0;
      const span = Math.max(LEAST_SPAN * Math.max(Math.abs(low), Math.abs(high)), MIN_NUMBER);
      if (high - low <= span) {
        const more = Math.abs(high) <= MIN_NUMBER ? 1 : 0.1 * Math.abs(high);
        [low, high] = [low >= 0 ? Math.max(low - more, 0) : low - more, high + more];
      }
    }
    return { lo: Math.max(low, least), hi: Math.min(high, most), log: axis.log };
  }

  /* What is not above zero lies at the beginning of a logarithmic axis, or before what is seen of it. */
  function share(range, value) {
    if (!range.log) return (value - range.lo) / (range.hi - range.lo);
    if (value <= 0 || value <= range.lo && !range.zoomed) return range.zoomed ? -1 : 0;
    return Math.log(value / range.lo) / Math.log(range.hi / range.lo);
  }

  const toPixel = (axis, value) => axis.from + share(axis, value) * (axis.to - axis.from);

  function toValue(axis, pixel) {
    const part = (pixel - axis.from) / (axis.to - axis.from);
    return axis.log ? axis.lo * (axis.hi / axis.lo) ** part : axis.lo + part * (axis.hi - axis.lo);
  }

  /* ---- Ticks ---- */

  function decimalStep(rough) {
    const power = 10 ** Math.floor(Math.log10(rough));
    return ([1, 2, 5].find(factor => factor * power >= rough * (1 - 1e-9)) || 10) * power;
  }

  const binaryStep = rough => 2 ** Math.ceil(Math.log2(rough) - 1e-9);
  const stepOf = (unit, rough) => (isBinary(unit) ? binaryStep(rough) : decimalStep(rough));

  function linearTicks(range, unit, most, widens) {
    const step = stepOf(unit, (range.hi - range.lo) / most);
    if (widens) {
      range.lo = Math.floor(range.lo / step + 1e-9) * step;
      range.hi = Math.ceil(range.hi / step - 1e-9) * step;
    }
    const first = Math.ceil(range.lo / step - 1e-9), last = Math.floor(range.hi / step + 1e-9);
    const count = clamp(last - first + 1, 0, 4 * MOST_TICKS);
    return Array.from({ length: count }, (_, at) => {
      const value = (first + at) * step;
      return { value, label: showTick(unit, value, step) };
    });
  }

  function logTicks(range, unit, mantissas, stride) {
    const base = isBinary(unit) ? 2 : 10;
    const low = range.lo * (1 - 1e-9), high = range.hi * (1 + 1e-9);
    const first = Math.floor(Math.log(low) / Math.log(base)), last = Math.ceil(Math.log(high) / Math.log(base));
    const ticks = [];
    for (let power = first; power <= last; power += 1) {
      if (((power % stride) + stride) % stride !== 0) continue;
      for (const mantissa of mantissas) {
        const value = mantissa * base ** power;
        if (value >= low && value <= high) ticks.push({ value, label: showTick(unit, value, value) });
      }
    }
    return ticks;
  }

  function bestLogTicks(range, unit, most) {
    const fine = isBinary(unit) ? [] : [[[1, 2, 5], 1], [[1, 3], 1]];
    const coarse = [1, 2, 5, 10, 20, 40].map(stride => [[1], stride]);
    for (const [mantissas, stride] of [...fine, ...coarse]) {
      const ticks = logTicks(range, unit, mantissas, stride);
      if (ticks.length <= most) return ticks.length >= 2 ? ticks : linearTicks({ ...range }, unit, most, false);
    }
    return linearTicks({ ...range }, unit, most, false);
  }

  const ticksOf = (range, unit, most, widens) =>
    (range.log ? bestLogTicks(range, unit, Math.max(most, 2)) : linearTicks(range, unit, most, widens));

  /* A horizontal axis: as many ticks as fit beside each other. */
  function placeAcross(range, unit, from, to, font, widens) {
    let placed;
    for (let most = MOST_TICKS; most >= 1; most -= 1) {
      placed = { ...range, unit, from, to };
      const ticks = placed.ticks = ticksOf(placed, unit, most, widens);
      const half = tick => widthOf(tick.label, font) / 2;
      const fits = ticks.every((tick, at) => at === 0
        || toPixel(placed, tick.value) - half(tick) - toPixel(placed, ticks[at - 1].value) - half(ticks[at - 1]) > 1.2 * font);
      if (fits) break;
    }
    return placed;
  }

  /* A vertical axis, widened to whole steps unless the reader chose its ends. */
  function placeUpright(range, unit, from, to, font) {
    const most = clamp(Math.floor((from - to) / (2.6 * font)), 1, MOST_TICKS);
    const placed = { ...range, unit, from, to };
    if (range.log && !range.zoomed) {
      placed.lo = 1 / stepOf(unit, 1 / range.lo);
      placed.hi = stepOf(unit, range.hi);
    }
    placed.ticks = ticksOf(placed, unit, most, !range.zoomed);
    return placed;
  }

  /* Breaks entries of these widths into rows; gives each its row and where it begins. */
  function flow(widths, width) {
    let row = 0, x = 0;
    return widths.map(entry => {
      if (x > 0 && x + entry > width) [row, x] = [row + 1, 0];
      const place = [row, x];
      x += entry;
      return place;
    });
  }

  return { placeAcross, placeUpright, rangeOf, within, toPixel, toValue, widthOf, shorten, flow };
})();
