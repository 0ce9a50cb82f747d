/* Line charts from their values: the rules of line/ once more, for charts that change. A test compares what is drawn by the two. */
const drawLines = (() => {
  const NARROW_EM = 45, LABEL_SHARE = 0.24, MOST_SYMBOLS = 48, POINT_MARGIN = 0.02, MOST_LABELS = 40, TOLERANCE = 15;
  const number = value => String(Math.round(value * 100) / 100);
  const hundredths = value => Math.round(value * 100);

  /* ---- Curves: corners in hundredths of a pixel ---- */

  function steps(points, end, tolerance) {
    const corners = [];
    let left = null, level = 0;
    for (const [x, y] of points) {
      if (corners.length === 0) {
        corners.push([x, y]);
        level = y;
        continue;
      }
      left = [x, y];
      if (Math.abs(y - level) > tolerance) {
        corners.push([x, level], [x, y]);
        level = y;
        left = null;
      }
    }
    if (left && left[1] !== level) {
      corners.push([left[0], level], left);
      level = left[1];
    }
    if (corners.length && corners[corners.length - 1][0] < end) corners.push([end, level]);
    return corners;
  }

  function thinned(points, tolerance) {
    const kept = [];
    let left = null;
    for (const point of points) {
      const last = kept[kept.length - 1];
      if (last && Math.max(Math.abs(point[0] - last[0]), Math.abs(point[1] - last[1])) < tolerance) left = point;
      else {
        kept.push(point);
        left = null;
      }
    }
    if (left) kept.push(left);
    return kept;
  }

  function cornersOf(series, ys, x, y) {
    const points = series.x.map((value, at) => [hundredths(toPixel(x, value)), hundredths(toPixel(y, ys[at]))]);
    if (series.shape === 'steps') return steps(points, hundredths(x.to), TOLERANCE);
    return series.shape === 'lines' ? thinned(points, TOLERANCE) : points;
  }

  function pathData(points) {
    if (points.length === 0) return '';
    let [[x, y]] = points;
    const parts = [`M${x / 100} ${y / 100}`];
    for (let at = 1; at < points.length; at += 1) {
      const [toX, toY] = points[at], dx = toX - x, dy = toY - y;
      if (dx === 0 && dy === 0) continue;
      parts.push(dy === 0 ? `h${dx / 100}` : dx === 0 ? `v${dy / 100}` : `l${dx / 100}${dy < 0 ? '' : ' '}${dy / 100}`);
      [x, y] = [toX, toY];
    }
    return parts.join('');
  }

  /* A logarithmic axis has no place for zero: what lies at its edge is not joined with it. */
  function curveData(series, corners, x) {
    let unjoined = 0;
    if (x.log && series.x.length && series.x[0] <= 0) {
      while (unjoined < corners.length && corners[unjoined][0] === corners[0][0]) unjoined += 1;
      unjoined -= 1;
    }
    return corners.slice(0, unjoined).map(corner => pathData([corner])).join('') + pathData(corners.slice(unjoined));
  }

  function bandData(series, ys, x, y) {
    const side = sign => {
      const points = series.x.map((value, at) =>
        [hundredths(toPixel(x, value)), hundredths(toPixel(y, within(y.unit, ys[at], ys[at] + sign * series.errors[at])))]);
      return series.shape === 'steps' ? steps(points, hundredths(x.to), 0) : points;
    };
    return pathData([...side(1), ...side(-1).reverse()]) + 'z';
  }

  function heightAt(corners, x) {
    let low = 0, high = corners.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (corners[middle][0] <= x) low = middle + 1; else high = middle;
    }
    if (low === 0) return corners[0][1];
    if (low === corners.length) return corners[low - 1][1];
    const [[x0, y0], [x1, y1]] = [corners[low - 1], corners[low]];
    return y0 + Math.round((y1 - y0) * (x - x0) / (x1 - x0));
  }

  /* ---- Where everything is ---- */

  function spread(wanted, height, top, bottom) {
    const step = Math.min(height, (bottom - top) / Math.max(wanted.length, 1));
    const blocks = [];
    wanted.forEach((want, at) => {
      let block = [want - at * step, 1];
      while (blocks.length && blocks[blocks.length - 1][0] > block[0]) {
        const [mean, count] = blocks.pop(), total = count + block[1];
        block = [(mean * count + block[0] * block[1]) / total, total];
      }
      blocks.push(block);
    });
    const least = top + step / 2, most = bottom - step / 2 - step * Math.max(wanted.length - 1, 0);
    const means = blocks.flatMap(([mean, count]) => Array(count).fill(Math.max(Math.min(mean, most), least)));
    return means.map((mean, at) => mean + at * step);
  }

  function legendNames(chart) {
    const names = chart.series.slice(0, data.colours).map(series => series.name);
    const others = chart.series.length - names.length;
    if (others > 0) names.push(others === 1 ? 'and 1 other' : `and ${others} others`);
    return names;
  }

  function ranges(chart, view, values) {
    const xs = [], ys = [];
    chart.series.forEach((series, at) => series.x.forEach((x, index) => {
      const error = series.errors[index] || 0, y = values[at][index];
      xs.push(x);
      ys.push(within(chart.y.unit, y, y - error), within(chart.y.unit, y, y + error));
    }));
    if (chart.markers !== null) data.pool[chart.markers].states.flat().forEach(x => { if (x !== null) xs.push(x); });
    const across = rangeOf({ ...chart.x, log: view.logX }, xs), upright = rangeOf({ ...chart.y, log: view.logY }, ys);
    if (!across || !upright) return null;
    if (!across.log && chart.series.some(series => series.shape === 'points')) {
      const margin = POINT_MARGIN * (across.hi - across.lo);
      [across.lo, across.hi] = [across.lo - margin, across.hi + margin];
    }
    const zoomed = (range, ends) => (ends ? { ...range, lo: ends[0], hi: ends[1], zoomed: true } : range);
    return [zoomed(across, view.x), zoomed(upright, view.y)];
  }

  function layoutOf(chart, view, values) {
    const found = ranges(chart, view, values);
    if (!found) return null;
    const [across, upright] = found, { font } = chart, width = view.width || chart.width, height = view.height || chart.height;
    const names = legendNames(chart), isNarrow = width < NARROW_EM * font, isNamed = chart.series.length > 1;
    const most = width * (isNarrow ? 0.6 : LABEL_SHARE);
    const label = Math.min(Math.max(0, ...names.map(name => widthOf(name, font))), most);
    const y = placeUpright(upright, chart.y.unit, height - 3.6 * font, 2 * font, font);
    const left = Math.max(0, ...y.ticks.map(tick => widthOf(tick.label, font))) + 0.9 * font;
    const right = isNarrow || !isNamed ? 2.4 * font : label + 2.4 * font;
    const x = placeAcross(across, chart.x.unit, left, width - right, font, false);
    let below = null;
    if (isNarrow) {
      below = isNamed && !view.bare
        ? flow(names.map(name => Math.min(widthOf(name, font), label) + 3.6 * font), width - left) : [];
    }
    const rows = Math.max(0, ...(below || []).map(place => place[0] + 1));
    return { x, y, below, label, width, height: height + rows * 1.5 * font };
  }

  /* ---- Drawing ---- */

  const SVG = (document.querySelector('.scroll > svg') || {}).namespaceURI;
  function node(tag, parent, attributes, text) {
    const made = document.createElementNS(SVG, tag);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    if (parent) parent.append(made);
    return made;
  }

  const stroke = (parent, [x0, y0], [x1, y1], colour, width) => node('path', parent,
    { d: `M${number(x0)} ${number(y0)}L${number(x1)} ${number(y1)}`, stroke: colour, 'stroke-width': number(width), fill: 'none' });

  function write(parent, [x, y], anchor, fill, text, more) {
    const ends = anchor === 'start' ? {} : { 'text-anchor': anchor };
    return node('text', parent, { x: number(x), y: number(y), fill, ...ends, ...more }, text);
  }

  function dash(chart, index) {
    const pattern = data.dashes[index] || [];
    return pattern.length ? { 'stroke-dasharray': pattern.map(part => number(part * chart.stroke)).join(' ') } : {};
  }

  function symbol(parent, index, colour, place, radius, more) {
    const [x, y] = place || [0, 0];
    const shape = data.symbols[Math.min(index, data.colours) % data.colours];
    return node('path', parent, {
      ...more, d: shape, transform: `translate(${number(x)} ${number(y)}) scale(${number(radius)})`,
      fill: colour, stroke: 'var(--card)', 'stroke-width': '.22', ...(place ? {} : { visibility: 'hidden' }),
    });
  }

  function drawAxes(svg, chart, { x, y }, view) {
    const { font } = chart, thin = chart.stroke * 0.5, muted = 'var(--muted)';
    const group = node('g', svg, { class: 'axes' });
    y.ticks.forEach(tick => {
      const at = toPixel(y, tick.value);
      stroke(group, [x.from, at], [x.to, at], 'var(--grid)', thin);
      write(group, [x.from - 0.5 * font, at + 0.35 * font], 'end', muted, tick.label);
    });
    stroke(group, [x.from, y.from], [x.to, y.from], muted, thin);
    x.ticks.forEach(tick => {
      const at = toPixel(x, tick.value);
      stroke(group, [at, y.from], [at, y.from + 0.4 * font], muted, thin);
      write(group, [at, y.from + 1.45 * font], 'middle', muted, tick.label);
    });
    const space = x.to - x.from, label = (axis, isLog, text) => text + (isLog ? ', log scale' : '');
    const yText = view.complement ? chart.y.complement : chart.y.label;
    write(group, [0.3 * font, y.to - 0.9 * font], 'start', 'var(--ink)', shorten(label(chart.y, view.logY, yText), space * 0.6, font));
    const middle = (x.from + x.to) / 2;
    write(group, [middle, y.from + 3 * font], 'middle', 'var(--ink)', shorten(label(chart.x, view.logX, chart.x.label), space, font));
  }

  function drawSeries(parent, chart, index, corners, layout) {
    const series = chart.series[index], isLoose = series.shape === 'points', isNamed = index < data.colours;
    const group = node('g', parent, { class: isNamed ? 's' : 's rest', 'data-s': index });
    node('path', group, {
      class: 'curve', d: curveData(series, corners, layout.x), stroke: isLoose ? 'none' : series.colour,
      'stroke-width': number(chart.stroke * (isNamed ? 1 : 0.4)), 'stroke-linejoin': 'round', fill: 'none', ...dash(chart, index),
    });
    if (isLoose || series.shape === 'lines' && series.x.length <= MOST_SYMBOLS && isNamed) {
      corners.forEach(([x, y]) => symbol(group, index, series.colour, [x / 100, y / 100], chart.font * (isLoose ? 0.36 : 0.24), {}));
    }
  }

  /* Where a marker lies on its curve. */
  function markerPlace(series, corners, value, x) {
    if (value === null || corners.length === 0) return null;
    const px = hundredths(toPixel(x, value));
    const y = x.log && value <= 0 ? corners[0][1] : heightAt(corners, px);
    return [px / 100, y / 100];
  }

  function drawMarkers(plot, svg, chart, view, layout, curves) {
    const { font } = chart, { x, y } = layout;
    const state = now(chart.markers);
    for (let index = chart.series.length - 1; index >= 0; index -= 1) {
      if (view.hidden.has(chart.series[index].name)) continue;
      const place = markerPlace(chart.series[index], curves[index], state[index], x);
      const radius = font * (index < data.colours ? 0.42 : 0.25);
      symbol(plot, index, chart.series[index].colour, place, radius, { class: 'marker', 'data-s': index });
    }
    const name = shorten(chart.marked, (x.to - x.from) * 0.4, font), top = y.to - 0.9 * font;
    write(svg, [x.to, top], 'end', 'var(--muted)', name);
    node('circle', svg, {
      cx: number(x.to - widthOf(name, font) - 0.8 * font), cy: number(top - 0.35 * font), r: number(font * 0.38), fill: 'var(--muted)',
    });
  }

  function drawEntry(svg, chart, label, index, from, to) {
    const { font } = chart, series = chart.series[index];
    const key = node('g', svg, { class: 'key', 'data-s': index });
    node('title', key, {}, series.name);
    if (series.shape === 'points') symbol(key, index, series.colour, [(from[0] + to[0]) / 2, to[1]], font * 0.36, {});
    else {
      const line = stroke(key, from, to, series.colour, chart.stroke);
      Object.entries(dash(chart, index)).forEach(([name, value]) => line.setAttribute(name, value));
    }
    write(key, [to[0] + 0.4 * font, to[1] + 0.35 * font], 'start', 'var(--ink)', shorten(series.name, label, font));
  }

  /* Where a curve leaves the chart. */
  function endOf(corners, { x, y }) {
    if (corners.length === 0) return null;
    const right = hundredths(x.to), last = corners[corners.length - 1];
    const [px, py] = last[0] > right ? [right, heightAt(corners, right)] : last;
    return [px / 100, clamp(py / 100, y.to, y.from)];
  }

  function labelBeside(svg, chart, view, layout, curves) {
    if (chart.series.length < 2) return;
    const { font } = chart, { x, y } = layout, right = x.to;
    const top = y.to - 0.7 * font, bottom = y.from + 0.7 * font;
    const space = Math.floor((bottom - top) / (1.25 * font));
    const shown = Math.min(curves.length, data.colours, Math.max(space - 1, 0));
    const ends = curves.slice(0, shown).map(corners => endOf(corners, layout));
    const height = index => (ends[index] ? ends[index][1] : y.from);
    const order = ends.map((_, index) => index).filter(index => !view.hidden.has(chart.series[index].name))
      .sort((a, b) => height(a) - height(b));
    const wanted = order.map(height), others = chart.series.length - shown;
    if (others > 0) wanted.push(bottom);
    const places = spread(wanted, 1.25 * font, top, bottom);
    order.forEach((index, at) => {
      const end = ends[index], isNear = end && right - end[0] < 3 * font && chart.series[index].shape !== 'points';
      const from = isNear ? [end[0] + 0.2 * font, end[1]] : [right + 0.4 * font, places[at]];
      drawEntry(svg, chart, layout.label, index, from, [right + 1.5 * font, places[at]]);
    });
    if (others > 0) {
      const text = others === 1 ? 'and 1 other' : `and ${others} others`;
      write(svg, [right + 1.9 * font, places[order.length] + 0.35 * font], 'start', 'var(--muted)', text);
    }
  }

  function labelBelow(svg, chart, view, layout) {
    const { font } = chart, names = legendNames(chart);
    layout.below.forEach(([row, x], index) => {
      if (index < data.colours && view.hidden.has(chart.series[index].name)) return;
      const from = [layout.x.from + x, layout.y.from + (4.3 + 1.5 * row) * font];
      if (index === data.colours) write(svg, [from[0], from[1] + 0.35 * font], 'start', 'var(--muted)', names[index]);
      else drawEntry(svg, chart, layout.label, index, from, [from[0] + 2 * font, from[1]]);
    });
  }

  function labelPoints(svg, chart, view, layout, curves) {
    const font = chart.font * 0.9, half = 0.5 * chart.font, { x, y } = layout;
    const seen = index => !view.hidden.has(chart.series[index].name);
    const scatters = chart.series.map((series, index) => index).filter(index => chart.series[index].shape === 'points' && seen(index));
    const taken = scatters.flatMap(index => curves[index].map(([px, py]) =>
      [px / 100 - half, px / 100 + half, py / 100 - half, py / 100 + half]));
    /* The legend stands there. */
    const mostRight = !layout.below && chart.series.length > 1 ? x.to + 0.5 * font : layout.width;
    const covers = (a, b) => a[0] < b[1] && b[0] < a[1] && a[2] < b[3] && b[2] < a[3];
    scatters.filter(index => chart.series[index].labels.length <= MOST_LABELS).forEach(index => {
      chart.series[index].labels.forEach((label, at) => {
        const px = curves[index][at][0] / 100, py = curves[index][at][1] / 100;
        if (px < x.from || px > x.to || py > y.from || py < y.to) return;
        const text = shorten(label, layout.width * LABEL_SHARE, font), width = widthOf(text, font);
        const place = (start, bottom) => [start, start + width, bottom - 0.8 * font, bottom];
        const right = px + 0.6 * font, left = px - 0.6 * font - width, above = py - 0.3 * font, below = py + 1.1 * font;
        const free = [place(right, above), place(left, above), place(left, below), place(right, below)].find(side =>
          side[0] >= x.from && side[1] <= mostRight && side[2] >= y.to - 0.6 * font && side[3] <= y.from && !taken.some(other => covers(side, other)));
        if (!free) return;
        taken.push(free);
        write(svg, [free[0], free[3]], 'start', 'var(--muted)', text, { 'font-size': number(font) });
      });
    });
  }

  /* Draws the chart into the picture as `view` says; gives where everything is, or nothing where there is nothing to draw. */
  function drawLines(svg, chart, view) {
    const values = chart.series.map(series => (view.complement ? series.y.map(y => 1 - y) : series.y));
    const layout = layoutOf(chart, view, values);
    if (!layout) return null;
    const { x, y } = layout, seen = index => !view.hidden.has(chart.series[index].name);
    const curves = chart.series.map((series, at) => cornersOf(series, values[at], x, y));
    svg.replaceChildren();
    svg.setAttribute('viewBox', `0 0 ${number(layout.width)} ${number(layout.height)}`);
    drawAxes(svg, chart, layout, view);
    /* A picture within the picture cuts off what a zoomed axis leaves out. */
    const frame = view.x || view.y ? { x: x.from, y: y.to, width: x.to - x.from, height: y.from - y.to } : null;
    const plot = frame
      ? node('svg', svg, { class: 'plot', ...frame, viewBox: `${frame.x} ${frame.y} ${frame.width} ${frame.height}` })
      : node('g', svg, { class: 'plot' });
    for (let index = chart.series.length - 1; index >= 0; index -= 1) {
      const series = chart.series[index];
      if (series.errors.length && seen(index)) node('path', plot, {
        class: 's band', 'data-s': index, d: bandData(series, values[index], x, y), fill: series.colour, 'fill-opacity': '.18',
      });
    }
    for (let index = chart.series.length - 1; index >= 0; index -= 1) {
      if (seen(index)) drawSeries(plot, chart, index, curves[index], layout);
    }
    if (chart.markers !== null) drawMarkers(plot, svg, chart, view, layout, curves);
    if (layout.below) labelBelow(svg, chart, view, layout); else labelBeside(svg, chart, view, layout, curves);
    labelPoints(svg, chart, view, layout, curves);
    return { ...layout, curves, values };
  }

  return Object.assign(drawLines, { layoutOf, cornersOf, markerPlace, node, number });
})();
