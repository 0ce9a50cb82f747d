/* Brings a page to life: sliders, number fields, read-outs, highlighting, sorting. It draws no chart anew: curves are read
   from the paths in the page, so that what is read out is what is drawn. Text only ever enters as text, never as markup. */
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const elements = [...document.querySelectorAll('[data-item]')];
  const positions = data.sliders.map((_, at) => document.getElementById('slider' + at).valueAsNumber);
  const sliders = positions.map((_, at) => document.getElementById('slider' + at));
  const fields = data.fields.map((_, at) => document.getElementById('field' + at));
  const updates = [];

  function element(tag, parent, className, text) {
    const made = parent.namespaceURI.endsWith('svg')
      ? document.createElementNS(parent.namespaceURI, tag) : document.createElement(tag);
    if (className) made.setAttribute('class', className);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  /* The value of states where the sliders stand. States are named by their index in the pool. */
  function now(at) {
    const { sliders, states } = data.pool[at];
    const index = sliders.reduce((sum, slider) => sum * data.sliders[slider].positions.length + positions[slider], 0);
    return states[index];
  }

  const follows = at => data.pool[at].sliders.length > 0;
  const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

  /* ---- Axes and curves ---- */

  function share(axis, value) {
    if (!axis.log) return (value - axis.lo) / (axis.hi - axis.lo);
    return value <= axis.lo ? 0 : Math.log(value / axis.lo) / Math.log(axis.hi / axis.lo);
  }

  const toPixel = (axis, value) => axis.from + share(axis, value) * (axis.to - axis.from);

  function toValue(axis, pixel) {
    const part = (pixel - axis.from) / (axis.to - axis.from);
    return axis.log ? axis.lo * (axis.hi / axis.lo) ** part : axis.lo + part * (axis.hi - axis.lo);
  }

  /* The corners of a path made of M, h, v and l. */
  function corners(path) {
    const found = [];
    let x = 0, y = 0;
    for (const [, command, rest] of path.getAttribute('d').matchAll(/([Mhvl])([^Mhvl]*)/g)) {
      const steps = (rest.match(/-?\d*\.?\d+/g) || []).map(Number);
      if (command === 'M') [x, y] = steps;
      if (command === 'h') x += steps[0];
      if (command === 'v') y += steps[0];
      if (command === 'l') [x, y] = [x + steps[0], y + steps[1]];
      found.push([x, y]);
    }
    return found;
  }

  /* The last of the sorted items that is not after x, or -1. */
  function lastBefore(items, x) {
    let low = 0, high = items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (items[middle][0] <= x + 1e-6) low = middle + 1; else high = middle;
    }
    return low - 1;
  }

  function heightAt(points, x) {
    const at = lastBefore(points, x);
    if (at < 0) return points[0][1];
    if (at + 1 === points.length) return points[at][1];
    const [[x0, y0], [x1, y1]] = [points[at], points[at + 1]];
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
  }

  /* ---- Highlighting: one name at a time, wherever it occurs ---- */

  const lit = []; /* functions that light up a name, or nothing for null */
  let pinned = null;
  const light = name => lit.forEach(change => change(name === null ? pinned : name));

  function pin(name) {
    pinned = pinned === name ? null : name;
    light(pinned);
  }

  /* Lets an element light up its name while pointed at, and keep it lit by a click or the Enter key. */
  function lights(target, name, pins) {
    target.addEventListener('pointerenter', () => light(name));
    target.addEventListener('pointerleave', () => light(null));
    if (!pins) return;
    target.addEventListener('focus', () => light(name));
    target.addEventListener('blur', () => light(null));
    target.addEventListener('click', () => pin(name));
    target.addEventListener('keydown', event => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      pin(name);
    });
  }

  /* ---- Line charts ---- */

  const MOST_READ = 8; /* curves in one read-out */

  function bringLines(figure, chart) {
    const svg = figure.querySelector('svg');
    const groups = [...svg.querySelectorAll('g.s')].sort((a, b) => a.dataset.s - b.dataset.s);
    const curves = groups.map(group => corners(group.querySelector('.curve')));
    const marks = [...svg.querySelectorAll('.marker')].sort((a, b) => a.dataset.s - b.dataset.s);

    if (chart.markers !== null && follows(chart.markers)) updates.push(() => {
      now(chart.markers).forEach((value, at) => placeMark(marks[at], chart, curves[at], value));
    });
    lit.push(name => {
      const at = name === null ? -1 : chart.names.indexOf(name);
      svg.classList.toggle('lit', at >= 0);
      svg.querySelectorAll('[data-s]').forEach(part => part.classList.toggle('on', Number(part.dataset.s) === at));
    });
    svg.querySelectorAll('.key').forEach(key => lights(key, chart.names[key.dataset.s], true));
    if (chart.names.length > svg.querySelectorAll('.key').length && chart.names.length > 1) addNames(figure, chart.names);
    addReadOut(figure, svg, chart, curves);
  }

  function placeMark(mark, chart, points, value) {
    const hidden = value === null || points.length === 0;
    mark.setAttribute('visibility', hidden ? 'hidden' : 'visible');
    if (hidden) return;
    const x = toPixel(chart.x, value);
    /* What lies before a logarithmic axis is where the curve begins. */
    const y = chart.x.log && value <= 0 ? points[0][1] : heightAt(points, x);
    const scale = mark.getAttribute('transform').match(/scale\([^)]*\)/)[0];
    mark.setAttribute('transform', `translate(${x.toFixed(2)} ${y.toFixed(2)}) ${scale}`);
  }

  /* A button for each name, because not all have a label beside their curve. */
  function addNames(figure, names) {
    const list = element('details', figure, 'names');
    element('summary', list, '', `All ${names.length} names`);
    const box = element('div', list);
    names.forEach(name => {
      const button = element('button', box, '', name);
      button.type = 'button';
      lights(button, name, true);
      lit.push(on => button.classList.toggle('on', on === name));
    });
  }

  function addReadOut(figure, svg, chart, curves) {
    const cross = element('path', svg, 'cross');
    const tip = element('div', figure, 'tip');
    tip.hidden = true;
    svg.setAttribute('tabindex', '0');
    let keyX = (chart.x.from + chart.x.to) / 2;

    function hide() {
      if (tip.hidden) return;
      tip.hidden = true;
      cross.removeAttribute('d');
      light(null);
    }

    function read(x, y) {
      const rows = readings(chart, curves, x, y);
      if (rows.length === 0) return hide();
      cross.setAttribute('d', `M${x} ${chart.y.from}V${chart.y.to}`);
      tip.replaceChildren();
      const head = rows[0].loose ? rows[0].label : show(chart.x.unit, toValue(chart.x, x));
      element('b', tip, '', head);
      const nearest = rows[0];
      const listed = rows.slice(0, MOST_READ).sort((a, b) => a.y - b.y);
      listed.forEach(row => {
        const line = element('div', tip, row === nearest ? 'near' : '');
        const swatch = element('i', line);
        swatch.style.background = row.at < data.colours ? `var(--c${row.at})` : 'var(--rest)';
        element('span', line, '', chart.names[row.at]);
        element('em', line, '', row.text);
      });
      if (rows.length > MOST_READ) element('div', tip, 'more', `the ${MOST_READ} nearest of ${rows.length}`);
      tip.hidden = false;
      light(chart.names[nearest.at]);
      placeTip(figure, svg, tip, x, nearest.y);
    }

    svg.addEventListener('pointermove', event => {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const inside = point.x >= chart.x.from - 4 && point.x <= chart.x.to + 4
        && point.y <= chart.y.from + 4 && point.y >= chart.y.to - 4;
      if (!inside) return hide();
      keyX = clamp(point.x, chart.x.from, chart.x.to);
      read(keyX, point.y);
    });
    svg.addEventListener('pointerleave', hide);
    svg.addEventListener('blur', hide);
    svg.addEventListener('keydown', event => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || event.target !== svg) return;
      event.preventDefault();
      keyX = clamp(keyX + step * (chart.x.to - chart.x.from) / 50, chart.x.from, chart.x.to);
      read(keyX, chart.y.to);
    });
  }

  /* What can be read at a place, the nearest first. Of scatters only the nearest point. */
  function readings(chart, curves, x, y) {
    const rows = [];
    let point = null;
    curves.forEach((points, at) => {
      if (points.length === 0) return;
      if (chart.loose[at]) {
        points.forEach(([px, py], index) => {
          const far = Math.hypot(px - x, py - y);
          if (far < 30 && (point === null || far < point.far)) point = { at, index, far, x: px, y: py, loose: true };
        });
        return;
      }
      if (x < points[0][0] - 4 || x > points[points.length - 1][0] + 4) return;
      const height = heightAt(points, x);
      const errors = chart.errors[at];
      const error = errors.length ? errors[Math.max(lastBefore(errors, x), 0)][1] : null;
      const value = show(chart.y.unit, toValue(chart.y, height));
      const text = error === null ? value : `${value} ± ${show(chart.y.unit, error)}`;
      rows.push({ at, far: Math.abs(height - y), y: height, text });
    });
    rows.sort((a, b) => a.far - b.far);
    if (point === null) return rows;
    point.text = `${show(chart.x.unit, toValue(chart.x, point.x))}, ${show(chart.y.unit, toValue(chart.y, point.y))}`;
    point.label = chart.labels[point.at][point.index] || chart.names[point.at];
    return [point];
  }

  /* Beside the place that is read, inside the figure. */
  function placeTip(figure, svg, tip, x, y) {
    const frame = figure.getBoundingClientRect();
    const place = new DOMPoint(x, y).matrixTransform(svg.getScreenCTM());
    const [left, top] = [place.x - frame.left, place.y - frame.top];
    const isRight = left + 16 + tip.offsetWidth < frame.width;
    tip.style.left = Math.max(isRight ? left + 14 : left - 14 - tip.offsetWidth, 0) + 'px';
    tip.style.top = clamp(top - tip.offsetHeight / 2, 0, Math.max(frame.height - tip.offsetHeight, 0)) + 'px';
  }

  /* ---- Bars ---- */

  function bringBars(figure, chart) {
    const rows = [...figure.querySelectorAll('.row')].map(row => ({
      row, bars: [...row.querySelectorAll('.bar')], values: [...row.querySelectorAll('.value')],
    }));
    const ticks = [...figure.querySelectorAll('.ticks')];
    rows.forEach(({ row }, at) => lights(row, chart.names[at], false));
    lit.push(name => rows.forEach(({ row }, at) => row.classList.toggle('on', chart.names[at] === name)));
    if (chart.panels.some(panel => panel.parts.some(follows))) updates.push(() => {
      const states = chart.panels.map(panel => panel.parts.map(now));
      chart.panels.forEach((panel, p) => chooseLevel(panel, states[p], ticks[p]));
      rows.forEach((found, at) => moveBars(chart, states, found, at));
    });
  }

  /* The smallest of the panel's axes that holds every bar, and its ticks in place of those that are there. */
  function chooseLevel(panel, parts, ticks) {
    const length = row => parts.map(part => part[row]).reduce((a, b) => (panel.stacked ? a + b : Math.max(a, b)));
    const longest = Math.max(...parts[0].map((_, row) => length(row)));
    const level = panel.levels.findLast(({ x }) => x.hi >= longest * (1 - 1e-5)) || panel.levels[0];
    panel.x = level.x;
    const [line, label] = [ticks.querySelector('path'), ticks.querySelector('text')];
    const [, top, , bottom] = line.getAttribute('d').match(/[\d.]+/g);
    ticks.replaceChildren(...level.ticks.flatMap(([x, text], at) => {
      const copies = [line.cloneNode(), label.cloneNode()];
      copies[0].setAttribute('d', `M${x} ${top}L${x} ${bottom}`);
      copies[1].setAttribute('x', x);
      copies[1].setAttribute('text-anchor', at === 0 ? 'start' : 'middle');
      copies[1].textContent = text;
      return copies;
    }));
  }

  /* Bars and numbers of a row in the order in which they were drawn: by panel, then by part. */
  function moveBars(chart, states, { bars, values }, row) {
    let bar = 0, value = 0;
    const write = (panel, length) => {
      const text = values[value++];
      const shift = Number(text.getAttribute('font-size')) * 0.43;
      text.setAttribute('x', (toPixel(panel.x, length) + shift).toFixed(2));
      text.textContent = show(panel.x.unit, length);
    };
    chart.panels.forEach((panel, p) => {
      let sum = 0;
      panel.parts.forEach((_, part) => {
        const length = states[p][part][row];
        const from = toPixel(panel.x, sum);
        bars[bar].setAttribute('x', from.toFixed(2));
        bars[bar++].setAttribute('width', (toPixel(panel.x, sum + length) - from).toFixed(2));
        if (panel.stacked) sum += length; else write(panel, length);
      });
      if (panel.stacked) write(panel, sum);
    });
  }

  /* ---- Tables ---- */

  const MANY_ROWS = 12; /* a table with more rows can be searched */

  function bringTable(box, table) {
    const body = box.querySelector('tbody');
    const rows = [...body.rows].map((row, at) => ({ row, at, name: row.cells[0].textContent }));
    const heads = [...box.querySelectorAll('thead th')];
    const sorted = { column: -1, sign: 1 };
    const value = (column, at) => (column.text ? column.text[at] : now(column.values)[at]);

    function sort() {
      const column = table.columns[sorted.column];
      if (!column) return;
      const compare = column.text
        ? (a, b) => sorted.sign * value(column, a.at).localeCompare(value(column, b.at), 'en', { numeric: true })
        : (a, b) => {
          const [left, right] = [value(column, a.at), value(column, b.at)];
          /* Empty cells stand last, whatever the order. */
          if (left === null || right === null) return (left === null) - (right === null);
          return sorted.sign * (left - right);
        };
      rows.sort((a, b) => compare(a, b) || a.at - b.at);
      body.append(...rows.map(({ row }) => row));
    }

    heads.forEach((head, at) => head.querySelector('button').addEventListener('click', () => {
      const first = table.columns[at].text ? 1 : -1; /* the largest numbers first, as a reader looks for them */
      sorted.sign = sorted.column === at ? -sorted.sign : first;
      sorted.column = at;
      heads.forEach(other => other.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', sorted.sign > 0 ? 'ascending' : 'descending');
      sort();
    }));
    rows.forEach(({ row, name }) => {
      lights(row, name, false);
      lit.push(on => row.classList.toggle('on', on === name));
    });
    if (rows.length > MANY_ROWS) addSearch(box, rows);
    const moving = table.columns.map((column, at) => [column, at]).filter(([column]) => !column.text && follows(column.values));
    if (moving.length) updates.push(() => {
      moving.forEach(([column, cell]) => {
        const values = now(column.values);
        rows.forEach(({ row, at }) => { row.cells[cell].textContent = show(column.unit, values[at]); });
      });
      sort();
    });
  }

  function addSearch(box, rows) {
    const search = element('input', box, 'search');
    search.type = 'search';
    search.placeholder = `Find among ${rows.length} rows`;
    search.setAttribute('aria-label', search.placeholder);
    box.prepend(search);
    search.addEventListener('input', () => {
      const wanted = search.value.toLowerCase();
      rows.forEach(({ row }) => { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
    });
  }

  /* ---- Sentences, figures, controls ---- */

  function bringSentences(list, { texts, sentences }) {
    if (follows(sentences)) updates.push(() => {
      list.replaceChildren();
      now(sentences).forEach(number => element('li', list, '', texts[number]));
    });
  }

  function fieldValue(at) {
    const { least, most } = data.fields[at];
    const value = fields[at].valueAsNumber;
    const isFit = value >= least && value <= most;
    fields[at].setAttribute('aria-invalid', String(!isFit));
    return isFit ? value : NaN;
  }

  function updateFigures() {
    const product = factors => factors.reduce((result, { given, field }) => result * (given === undefined ? fieldValue(field) : now(given)), 1);
    const shown = document.querySelectorAll('.figure > dd:first-of-type');
    data.figures.forEach(({ unit, over, under }, at) => {
      shown[at].textContent = show(unit, product(over) / product(under));
    });
  }

  function update() {
    sliders.forEach((slider, at) => {
      positions[at] = slider.valueAsNumber;
      const text = show(data.sliders[at].unit, data.sliders[at].positions[positions[at]]);
      slider.parentElement.querySelector('output').textContent = text;
      slider.setAttribute('aria-valuetext', text);
    });
    updateFigures();
    updates.forEach(change => change());
  }

  /* ---- The address: what the reader chose ---- */

  function readAddress() {
    const parts = new URLSearchParams(location.hash.slice(1));
    const numbers = key => (parts.get(key) || '').split(',').map(text => (text.trim() === '' ? NaN : Number(text)));
    numbers('slider').forEach((value, at) => {
      if (sliders[at] && Number.isInteger(value)) sliders[at].value = clamp(value, 0, Number(sliders[at].max));
    });
    numbers('field').forEach((value, at) => {
      if (fields[at] && Number.isFinite(value)) fields[at].value = value;
    });
  }

  function writeAddress() {
    const parts = [];
    if (sliders.length) parts.push('slider=' + positions.join(','));
    if (fields.length) parts.push('field=' + fields.map(field => field.value).join(','));
    try {
      history.replaceState(null, '', '#' + parts.join('&'));
    } catch {
      /* Some browsers refuse this for files; the page works without. */
    }
  }

  const bring = { lines: bringLines, bars: bringBars, table: bringTable, sentences: bringSentences };
  elements.forEach((found, at) => bring[data.items[at].kind](found, data.items[at]));
  [...sliders, ...fields].forEach(control => {
    control.addEventListener('input', update);
    control.addEventListener('change', writeAddress);
  });
  addEventListener('hashchange', () => { readAddress(); update(); });
  readAddress();
  update();
  document.documentElement.classList.add('alive');
})();
