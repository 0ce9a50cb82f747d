/* A line chart that can be explored: the strip that names and reads all its curves, zooming, scales, choices. What is read out
   are measured points, never what lies between them. */
const bringLines = (() => {
  const NARROW_PX = 700; /* where there is less room, a chart is laid out anew instead of made smaller */
  const LEAST_DRAG_PX = 8, REACH_PX = 30, TAIL_LETTERS = 6;

  const swatch = (chart, index) => {
    const series = chart.series[index], { node } = drawLines;
    const picture = node('svg', null, { class: 'swatch', viewBox: '0 0 26 10', 'aria-hidden': 'true' });
    if (series.shape !== 'points') {
      const pattern = (data.dashes[index] || []).map(part => part * 1.8).join(' ');
      node('path', picture, { d: 'M0 5h26', stroke: series.colour, 'stroke-width': 2, ...(pattern ? { 'stroke-dasharray': pattern } : {}) });
    }
    const few = series.shape === 'points' || index < data.colours;
    if (few) node('path', picture, { d: data.symbols[index % data.colours], transform: 'translate(13 5) scale(3.6)', fill: series.colour });
    return picture;
  };

  /* The last of the ascending numbers that is not after a value, or -1. */
  function lastBefore(numbers, value) {
    let low = 0, high = numbers.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (numbers[middle] <= value) low = middle + 1; else high = middle;
    }
    return low - 1;
  }

  function nearestIn(numbers, value, distance) {
    const at = lastBefore(numbers, value);
    if (at < 0) return 0;
    return at + 1 < numbers.length && distance(numbers[at + 1]) < distance(numbers[at]) ? at + 1 : at;
  }

  class Chart {
    constructor(figure, charts) {
      this.figure = figure;
      this.charts = charts;
      this.chart = charts[0];
      this.svg = figure.querySelector('.scroll > svg');
      this.view = { logX: this.chart.x.log, logY: this.chart.y.log, complement: false, x: null, y: null, hidden: new Set() };
      this.place = drawLines.layoutOf(this.chart, this.view, this.chart.series.map(series => series.y));
      this.drawn = null; /* until something changes, what the file has is what is seen */
      this.scroll = figure.querySelector('.scroll');
      this.scroll.classList.add('stage');
      this.tools = new Tools(figure, this);
      this.litCurve = this.layer('over');
      this.marks = this.layer('over marks');
      this.pointed = this.layer('over');
      this.strip = new Strip(figure, this);
      this.svg.setAttribute('tabindex', '0');
      this.listen();
      if (this.chart.markers !== null && follows(this.chart.markers)) follow(this.svg, () => this.moveMarkers());
      lit.push(name => this.lightUp(name));
      new ResizeObserver(() => this.fit()).observe(this.scroll);
      this.fit();
      this.tools.show();
    }

    /* A picture over the chart, so that what changes often draws nothing else anew. */
    layer(names) {
      return drawLines.node('svg', this.scroll, { class: names, 'aria-hidden': 'true' });
    }

    /* Lets the layers be where the drawing is, and names answer. */
    bringDrawing() {
      const viewBox = this.svg.getAttribute('viewBox');
      this.scroll.querySelectorAll('.over').forEach(layer => layer.setAttribute('viewBox', viewBox));
      const marks = [...this.svg.querySelectorAll('.marker')];
      if (marks.length) this.putInto(this.marks, marks); /* they are there already when only the room has changed */
      this.svg.querySelectorAll('.key').forEach(key => this.bringKey(key));
    }

    /* Puts parts of the plot into a layer, where they are cut off as in the plot. */
    putInto(box, parts) {
      const frame = this.svg.querySelector('svg.plot');
      if (!frame) return box.replaceChildren(...parts);
      const copy = frame.cloneNode(false);
      copy.append(...parts);
      box.replaceChildren(copy);
    }

    /* All that is seen, in one. */
    picture() {
      const all = this.svg.cloneNode(true);
      (all.querySelector('.plot') || all).append(...[...this.marks.querySelectorAll('.marker')].map(mark => mark.cloneNode(true)));
      return all;
    }

    /* Draws everything anew from the values. */
    draw() {
      this.drawn = this.place = drawLines(this.svg, this.chart, this.view);
      this.snaps = this.readByKeys = null;
      this.clear();
      this.marks.replaceChildren();
      this.bringDrawing();
      this.strip.show();
      this.tools.show();
      this.lightUp(lighted);
    }

    /* Letters stay as large as they are where the window is narrow. */
    fit() {
      const room = this.scroll.clientWidth;
      const width = room > 0 && room < Math.min(NARROW_PX, this.chart.width) ? room : null;
      if ((this.view.width || null) !== width) {
        Object.assign(this.view, { width, height: width && Math.max(260, this.chart.height * 0.75), bare: width !== null });
        this.draw();
      } else if (this.drawn === null) this.bringDrawing();
    }

    get values() {
      return this.chart.series.map(series => (this.view.complement ? series.y.map(y => 1 - y) : series.y));
    }

    isSeen(index) {
      return !this.view.hidden.has(this.chart.series[index].name);
    }

    choose(at) {
      this.chart = this.charts[at];
      this.view.logY = this.chart.y.log;
      this.view.complement = false;
      this.view.y = null;
      this.draw();
    }

    toggle(name) {
      const { hidden } = this.view;
      if (!hidden.delete(name)) hidden.add(name);
      this.draw();
    }

    /* All but this one are hidden; once more, and all are back. */
    isolate(name) {
      const { hidden } = this.view, others = this.chart.series.map(series => series.name).filter(other => other !== name);
      const isAlone = !hidden.has(name) && others.every(other => hidden.has(other));
      hidden.clear();
      if (!isAlone) others.forEach(other => hidden.add(other));
      this.draw();
    }

    zoom(x, y) {
      this.view.x = x;
      this.view.y = y;
      this.draw();
    }

    moveMarkers() {
      if (!this.drawn) {
        /* The file's own drawing has the same curves. */
        this.place.curves = this.chart.series.map((series, at) => drawLines.cornersOf(series, this.values[at], this.place.x, this.place.y));
        this.drawn = this.place;
      }
      const state = now(this.chart.markers);
      this.marks.querySelectorAll('.marker').forEach(mark => {
        const at = Number(mark.dataset.s);
        const place = drawLines.markerPlace(this.chart.series[at], this.place.curves[at], state[at], this.place.x);
        mark.setAttribute('visibility', place ? 'visible' : 'hidden');
        if (!place) return;
        const scale = mark.getAttribute('transform').match(/scale\([^)]*\)/)[0];
        mark.setAttribute('transform', `translate(${place.map(drawLines.number).join(' ')}) ${scale}`);
      });
    }

    lightUp(name) {
      const at = name === null ? -1 : this.chart.series.findIndex(series => series.name === name);
      this.putInto(this.litCurve, [...this.svg.querySelectorAll(`g.s[data-s="${at}"]`)].map(part => part.cloneNode(true)));
      this.litCurve.querySelectorAll('.s').forEach(part => part.classList.add('on'));
      this.strip.light(at);
      this.ringed?.remove();
      this.ringed = null;
      const point = at < 0 && name !== null && !this.pointed.querySelector('.ring') ? this.pointNamed(name) : null;
      if (point && point.px >= this.place.x.from && point.px <= this.place.x.to) this.ringed = this.ring(point);
    }

    /* The seen point of a scatter that is called so. */
    pointNamed(name) {
      const { x, y } = this.place, { values } = this;
      for (const [at, series] of this.chart.series.entries()) {
        const index = series.shape === 'points' && this.isSeen(at) ? series.labels.indexOf(name) : -1;
        if (index >= 0) return { at, index, px: toPixel(x, series.x[index]), py: toPixel(y, values[at][index]) };
      }
      return null;
    }

    ring(point) {
      return drawLines.node('circle', this.pointed, { class: 'ring', cx: point.px, cy: point.py, r: 9 });
    }

    bringKey(key) {
      const { name } = this.chart.series[key.dataset.s];
      lights(key, name);
      key.onclick = () => this.toggle(name);
      key.ondblclick = () => this.isolate(name);
    }

    /* ---- Reading ---- */

    /* All x at which something seen was measured, ascending. */
    measured() {
      if (!this.snaps) {
        const { lo, hi } = this.place.x, all = new Set();
        this.chart.series.forEach((series, at) => {
          if (series.shape === 'points' || !this.isSeen(at)) return;
          series.x.forEach(x => { if (x >= lo * (1 - 1e-9) && x <= hi * (1 + 1e-9)) all.add(x); });
        });
        this.snaps = Float64Array.from(all).sort();
      }
      return this.snaps;
    }

    clear() {
      this.pointed.replaceChildren();
    }

    hide() {
      this.clear();
      this.strip.read(null);
      light(null);
    }

    /* Shows what was measured at or next to a place of the chart. */
    read(px, py) {
      const point = this.pointAt(px, py);
      if (point) return this.readPoint(point);
      const { x, y } = this.place, snaps = this.measured();
      if (snaps.length === 0) return this.hide();
      const snap = snaps[nearestIn(snaps, toValue(x, px), value => Math.abs(toPixel(x, value) - px))];
      const rows = this.readings(snap), at = toPixel(x, snap);
      if (rows.length === 0) return this.hide();
      const nearest = rows.reduce((best, row) => (Math.abs(row.py - py) < Math.abs(best.py - py) ? row : best));
      this.clear();
      drawLines.node('path', this.pointed, { class: 'cross', d: `M${at} ${y.from}V${y.to}` });
      rows.filter(row => row.at < data.colours || row === nearest).forEach(row => drawLines.node('circle', this.pointed, {
        class: 'dot', cx: row.px, cy: row.py, r: row === nearest ? 5 : 3.5, fill: this.chart.series[row.at].colour,
      }));
      this.strip.read(show(x.unit, snap), rows, nearest);
      light(this.chart.series[nearest.at].name);
    }

    /* The measured value of each curve at a measured x; of lines, which say nothing between their points, the nearest one. */
    readings(snap) {
      const { x, y } = this.place, rows = [], { values } = this;
      this.chart.series.forEach((series, at) => {
        if (!this.isSeen(at) || series.x.length === 0 || series.shape === 'points') return;
        const index = series.shape === 'steps' ? lastBefore(series.x, snap)
          : nearestIn(series.x, snap, value => Math.abs(toPixel(x, value) - toPixel(x, snap)));
        if (index < 0) return;
        const value = values[at][index], where = series.shape === 'steps' ? snap : series.x[index];
        const error = series.errors.length ? ' ± ' + show(y.unit, series.errors[index]) : '';
        const elsewhere = where === snap ? '' : ` at ${show(x.unit, where)}`;
        rows.push({ at, px: toPixel(x, where), py: toPixel(y, value), text: show(y.unit, value) + error + elsewhere });
      });
      return rows;
    }

    /* The point of a scatter that is meant by a place, if there is one. */
    pointAt(px, py) {
      const { x, y } = this.place, { values } = this;
      let best = null;
      this.chart.series.forEach((series, at) => {
        if (series.shape !== 'points' || !this.isSeen(at)) return;
        series.x.forEach((value, index) => {
          const to = [toPixel(x, value), toPixel(y, values[at][index])], far = Math.hypot(to[0] - px, to[1] - py);
          if (far < REACH_PX && (!best || far < best.far)) best = { at, index, far, px: to[0], py: to[1] };
        });
      });
      return best;
    }

    readPoint(point) {
      const { x, y } = this.place, series = this.chart.series[point.at];
      const name = series.labels[point.index] || series.name;
      this.clear();
      this.ring(point);
      const text = `${show(x.unit, series.x[point.index])}, ${show(y.unit, this.values[point.at][point.index])}`;
      this.strip.read(name, [{ at: point.at, text }], null);
      light(name);
    }

    /* ---- Pointer and keys ---- */

    toChart(event) {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
      const { x, y } = this.place;
      const isInside = point.x >= x.from - 4 && point.x <= x.to + 4 && point.y <= y.from + 4 && point.y >= y.to - 4;
      return { px: clamp(point.x, x.from, x.to), py: clamp(point.y, y.to, y.from), isInside };
    }

    listen() {
      const read = eachFrame((px, py) => this.read(px, py));
      const drag = eachFrame((from, to) => this.showDrag(from, to));
      let from = null;
      this.svg.addEventListener('pointerdown', event => {
        const at = this.toChart(event);
        if (event.button !== 0 || !at.isInside) return;
        from = at;
        try { this.svg.setPointerCapture(event.pointerId); } catch { /* a pointer that is gone already */ }
      });
      this.svg.addEventListener('pointermove', event => {
        const at = this.toChart(event);
        if (from) return drag(from, at);
        if (!at.isInside) return this.hide();
        this.keyX = at.px;
        read(at.px, at.py);
      });
      this.svg.addEventListener('pointerup', event => {
        const start = from, at = this.toChart(event);
        from = null;
        if (!start) return;
        const [dx, dy] = [Math.abs(at.px - start.px), Math.abs(at.py - start.py)];
        if (Math.max(dx, dy) >= LEAST_DRAG_PX) this.zoomTo(start, at);
        else this.goTo(this.pointAt(at.px, at.py));
      });
      this.svg.addEventListener('pointercancel', () => { from = null; this.hide(); });
      this.svg.addEventListener('pointerleave', () => { if (!from) this.hide(); });
      this.svg.addEventListener('blur', () => this.hide());
      this.svg.addEventListener('keydown', event => this.key(event));
    }

    /* What a drag encloses; a drag along one axis leaves the other one as it is. */
    enclosed(a, b) {
      const { x, y } = this.place;
      const isWide = Math.abs(a.px - b.px) >= LEAST_DRAG_PX, isHigh = Math.abs(a.py - b.py) >= LEAST_DRAG_PX;
      const [left, right] = isWide ? [Math.min(a.px, b.px), Math.max(a.px, b.px)] : [x.from, x.to];
      const [top, bottom] = isHigh ? [Math.min(a.py, b.py), Math.max(a.py, b.py)] : [y.to, y.from];
      return { left, right, top, bottom, isWide, isHigh };
    }

    showDrag(a, b) {
      const { left, right, top, bottom } = this.enclosed(a, b);
      this.clear();
      drawLines.node('rect', this.pointed, { class: 'drag', x: left, y: top, width: right - left, height: bottom - top });
    }

    zoomTo(a, b) {
      const { x, y } = this.place, { left, right, top, bottom, isWide, isHigh } = this.enclosed(a, b);
      this.zoom(isWide ? [toValue(x, left), toValue(x, right)] : this.view.x, isHigh ? [toValue(y, bottom), toValue(y, top)] : this.view.y);
    }

    /* A click on a point, or Enter where keys have led to one, leads to its row. */
    goTo(point) {
      if (!point) return;
      const name = this.chart.series[point.at].labels[point.index];
      if (name !== undefined) rowsNamed.some(find => find(name));
    }

    key(event) {
      if (event.target !== this.svg || event.ctrlKey || event.metaKey || event.altKey) return;
      const { x, y } = this.place, points = this.chart.series.some((series, at) => series.shape === 'points' && this.isSeen(at));
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const middle = this.keyX === undefined ? (x.from + x.to) / 2 : clamp(this.keyX, x.from, x.to), part = (x.to - x.from) / 4;
      if (step && points) this.stepPoints(step);
      else if (step) this.stepTo(step, middle);
      else if (event.key === 'Enter' && this.readByKeys) this.goTo(this.readByKeys);
      else if (event.key === '+') this.zoomTo({ px: Math.max(middle - part, x.from), py: y.from }, { px: Math.min(middle + part, x.to), py: y.from });
      else if (event.key === '-' || event.key === '0' || event.key === 'Escape') this.zoom(null, null);
      else return;
      event.preventDefault();
    }

    /* From measured point to measured point, in steps that can be seen. */
    stepTo(step, px) {
      const { x, y } = this.place, snaps = this.measured(), far = (x.to - x.from) / 50;
      if (snaps.length === 0) return;
      const wanted = toValue(x, clamp(px + step * far, x.from, x.to));
      this.keyX = toPixel(x, snaps[nearestIn(snaps, wanted, value => Math.abs(value - wanted))]);
      if (Math.abs(this.keyX - px) < 0.5) this.keyX = clamp(px + step * far, x.from, x.to);
      this.read(this.keyX, y.to);
    }

    stepPoints(step) {
      const { x, y } = this.place, { values } = this;
      const all = this.chart.series.flatMap((series, at) => (series.shape === 'points' && this.isSeen(at)
        ? series.x.map((value, index) => ({ at, index, px: toPixel(x, value), py: toPixel(y, values[at][index]) })) : []))
        .sort((a, b) => a.px - b.px);
      this.pointNow = clamp((this.pointNow ?? (step > 0 ? -1 : all.length)) + step, 0, all.length - 1);
      this.readByKeys = all[this.pointNow];
      this.readPoint(this.readByKeys);
    }
  }

  /* ---- The strip below: every curve with its name and what is read of it ---- */

  class Strip {
    constructor(figure, owner) {
      this.owner = owner;
      this.box = element('div', figure, 'strip');
      this.head = element('p', this.box, 'head');
      this.head.setAttribute('aria-live', 'polite');
      this.list = element('div', this.box, 'names');
      this.names = null;
      this.show();
      this.read(null);
    }

    show() {
      const { chart, view } = this.owner, names = chart.series.map(series => series.name).join('\n');
      if (names !== this.names) {
        this.names = names;
        this.list.replaceChildren();
        this.rows = chart.series.map((series, index) => this.row(series, index));
      }
      this.rows.forEach(({ button }, index) => {
        button.setAttribute('aria-pressed', String(!view.hidden.has(chart.series[index].name)));
      });
    }

    row(series, index) {
      const made = button(this.list, '', 'Click: hide or show. Double click, or Shift and Enter: this one alone.', event => {
        if (event.shiftKey) this.owner.isolate(series.name);
        else this.owner.toggle(series.name);
      });
      made.addEventListener('dblclick', () => this.owner.isolate(series.name));
      made.append(swatch(this.owner.chart, index));
      const name = element('span', made, 'name');
      /* What tells the volumes of one trace apart stands at the end, which is therefore never left out. */
      const cut = Math.max(series.name.length - TAIL_LETTERS, 0);
      element('span', name, '', series.name.slice(0, cut));
      element('span', name, '', series.name.slice(cut));
      lights(made, series.name);
      return { button: made, value: element('em', made, '') };
    }

    /* What was measured; nothing where the pointer is elsewhere. */
    read(head, rows = [], nearest = null) {
      const { chart } = this.owner, hint = chart.series.length > 1
        ? 'Point at the chart to read it. Drag to zoom; click a name to hide it, twice to see it alone.' : 'Point at the chart to read it. Drag to zoom.';
      const text = head === null ? hint : nearest === null ? head : `${head}: ${chart.series[nearest.at].name} ${nearest.text}`;
      if (this.head.textContent !== text) this.head.textContent = text;
      const texts = new Map(rows.map(row => [row.at, row.text]));
      this.rows.forEach(({ value }, at) => {
        const wanted = texts.get(at) || '';
        if (value.textContent !== wanted) value.textContent = wanted;
      });
    }

    light(at) {
      this.rows.forEach(({ button }, index) => button.classList.toggle('on', index === at));
    }
  }

  /* ---- The buttons above ---- */

  class Tools {
    constructor(figure, owner) {
      const { chart } = owner;
      this.owner = owner;
      this.box = element('div', figure, 'tools');
      figure.querySelector('figcaption').after(this.box);
      const flip = (key, about) => button(this.box, '', about, () => {
        owner.view[key] = !owner.view[key];
        owner.view[key === 'logX' ? 'x' : 'y'] = null;
        owner.draw();
      });
      this.complement = flip('complement', 'Show what is not served instead of what is, or the other way round');
      this.logX = flip('logX', 'Let equal factors, or equal steps, of the horizontal axis be equally long');
      this.logY = flip('logY', 'Let equal factors, or equal steps, of the vertical axis be equally long');
      this.all = button(this.box, 'Show all', 'Show the hidden curves again', () => { owner.view.hidden.clear(); owner.draw(); });
      this.reset = button(this.box, 'Reset zoom', 'Show the whole range again', () => owner.zoom(null, null));
      const files = element('span', this.box, 'files');
      addPictureButtons(files, () => owner.picture(), () => owner.chart.title);
      button(files, 'CSV', 'Save the points that are seen as comma-separated values', () => save(csvOfLines(owner), owner.chart.title, 'csv'));
      this.canLog = axis => axis.log || chart.series.some(series => series[axis === chart.x ? 'x' : 'y'].some(value => value > 0));
    }

    show() {
      const { chart, view } = this.owner;
      this.complement.hidden = chart.y.complement === null;
      this.complement.textContent = view.complement ? 'Show hits' : 'Show misses';
      [['logX', chart.x, 'x axis'], ['logY', chart.y, 'y axis']].forEach(([key, axis, what]) => {
        this[key].hidden = !this.canLog(axis);
        this[key].textContent = `${what}: ${view[key] ? 'log' : 'linear'}`;
        this[key].setAttribute('aria-pressed', String(view[key]));
      });
      this.all.hidden = view.hidden.size === 0;
      this.reset.hidden = !view.x && !view.y;
    }
  }

  /* The points that are seen, in the order of the curves. */
  function csvOfLines({ chart, view, place, values }) {
    const within = ({ lo, hi }, value) => value >= lo * (1 - 1e-9) && value <= hi * (1 + 1e-9);
    const titles = ['series', chart.x.label, view.complement ? chart.y.complement : chart.y.label];
    const hasErrors = chart.series.some(series => series.errors.length), hasLabels = chart.series.some(series => series.labels.length);
    const rows = [[...titles, ...(hasErrors ? ['standard error'] : []), ...(hasLabels ? ['label'] : [])]];
    chart.series.forEach((series, at) => series.x.forEach((x, index) => {
      const y = values[at][index];
      if (view.hidden.has(series.name) || view.x && !within(place.x, x) || view.y && !within(place.y, y)) return;
      const error = series.errors.length ? series.errors[index] : '', label = series.labels.length ? series.labels[index] : '';
      rows.push([series.name, x, Number(y.toPrecision(6)), ...(hasErrors ? [error] : []), ...(hasLabels ? [label] : [])]);
    }));
    return csvText(rows);
  }

  return (figure, chart) => new Chart(figure, chart.charts || [chart]);
})();

/* One large chart of several: what is chosen above says which. */
function bringChoice(figure, choice) {
  const chart = bringLines(figure, choice), box = element('div', figure, 'choices');
  figure.querySelector('figcaption').after(box);
  const [title, about] = [figure.querySelector('figcaption b'), figure.querySelector('figcaption span')];
  const selects = choice.selects.map(({ label, options }) => {
    const select = element('select', element('label', box, '', label + ' '), '');
    options.forEach(option => element('option', select, '', option));
    return select;
  });
  const choose = () => {
    const at = selects.reduce((sum, select, index) => sum * choice.selects[index].options.length + select.selectedIndex, 0);
    [title.textContent, about.textContent] = [choice.charts[at].title, choice.charts[at].about];
    chart.choose(at);
  };
  selects.forEach(select => select.addEventListener('change', choose));
}
