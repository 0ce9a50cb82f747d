/* Bars that follow sliders. Their scale stays while a slider moves, unless a bar would leave it; it settles when the slider does. */
const bringBars = (() => {
  const NARROW_PX = 700;
  const LEAST_SHARE = 0.25; /* of its scale that the longest bar takes at least, or the scale settles anew */

  class Bars {
    constructor(figure, chart) {
      Object.assign(this, { figure, chart });
      this.svg = figure.querySelector('.scroll > svg');
      this.rows = [...figure.querySelectorAll('.row')].map(row => ({
        row, name: row.querySelector('.name'), bars: [...row.querySelectorAll('.bar')], values: [...row.querySelectorAll('.value')],
      }));
      this.ticks = [...figure.querySelectorAll('.ticks')];
      this.titles = [...figure.querySelectorAll('.panel')];
      const named = chart.panels.filter(panel => panel.names.length > 1).flatMap(panel => panel.names);
      this.legend = [...figure.querySelectorAll('.part')].map((entry, at) => {
        const text = entry.querySelector('text'), [x, y] = ['x', 'y'].map(name => Number(text.getAttribute(name)));
        return { entry, text, x, y, name: named[at] };
      });
      this.width = chart.width;
      this.height = Number(this.svg.getAttribute('viewBox').split(' ')[3]);
      this.levels = chart.panels.map(panel => panel.levels);
      this.chosen = chart.panels.map(() => null);
      this.rows.forEach(({ row }, at) => lights(row, chart.names[at]));
      lit.push(name => this.rows.forEach(({ row }, at) => row.classList.toggle('on', chart.names[at] === name)));
      this.addButtons();
      this.scroll = figure.querySelector('.scroll');
      follow(this.scroll, isMoving => this.update(isMoving));
      new ResizeObserver(() => this.fit()).observe(this.scroll);
      this.fit();
    }

    addButtons() {
      const box = element('div', this.figure, 'tools'), files = element('span', box, 'files'), { chart } = this;
      this.figure.querySelector('figcaption').after(box);
      addPictureButtons(files, () => this.svg, () => chart.title);
      button(files, 'CSV', 'Save the bars that are seen as comma-separated values', () => {
        const parts = chart.panels.flatMap(panel => panel.parts.map((part, at) => [`${panel.title} ${panel.names[at]}`.trim(), now(part)]));
        save(csvText([['row', ...parts.map(([name]) => name)],
          ...chart.names.map((name, row) => [name, ...parts.map(([, values]) => values[row])])]), chart.title, 'csv');
      });
    }

    /* In a narrow window the same letters, and shorter bars. */
    fit() {
      const room = this.scroll.clientWidth, { chart } = this;
      const width = room > 0 && room < Math.min(NARROW_PX, chart.width) ? room : chart.width;
      if (width === this.width) return;
      this.width = width;
      const { font } = chart, name = Math.min(Math.max(0, ...chart.names.map(text => widthOf(text, font))), width * 0.26);
      const first = name + 1.2 * font, panelPx = (width - first) / chart.panels.length;
      const above = this.fitLegend(width, first);
      this.svg.setAttribute('viewBox', `0 ${-above} ${width} ${this.height + above}`);
      this.rows.forEach((row, at) => {
        row.name.setAttribute('x', (name + 0.4 * font).toFixed(2));
        row.name.textContent = shorten(chart.names[at], name, font);
      });
      this.levels = chart.panels.map((panel, at) => {
        const from = first + panelPx * at, to = from + Math.max(panelPx - 6.5 * font, panelPx * 0.3);
        if (this.titles[at]) this.titles[at].setAttribute('x', from.toFixed(2));
        return panel.levels.map(({ x }) => {
          const placed = placeAcross({ lo: x.lo, hi: x.hi, log: false }, x.unit, from, to, font, true);
          return { x: placed, ticks: placed.ticks.map(tick => [toPixel(placed, tick.value), tick.label]) };
        });
      });
      this.chosen = chart.panels.map(() => null);
      this.update(false);
    }

    /* Breaks the legend into as many rows as it needs, which grow upwards. How high those are that did not need to be there before. */
    fitLegend(width, first) {
      const { font } = this.chart, { legend } = this;
      if (legend.length === 0) return 0;
      const room = width - first, rowPx = 1.5 * font, top = legend[0].y, last = legend[legend.length - 1];
      const places = flow(legend.map(({ name }) => Math.min(widthOf(name, font) + 3 * font, room)), room);
      const more = Math.max(places[places.length - 1][0] - Math.round((last.y - top) / rowPx), 0);
      legend.forEach(({ entry, text, x, y, name }, at) => {
        const [row, from] = places[at], dx = first + from + 1.4 * font - x, dy = top + (row - more) * rowPx - y;
        entry.setAttribute('transform', `translate(${dx.toFixed(2)} ${dy.toFixed(2)})`);
        text.textContent = shorten(name, room - 2 * font, font);
      });
      return more * rowPx;
    }

    /* While a slider moves, the rows out of view are left for later. */
    update(isMoving) {
      const states = this.chart.panels.map(panel => panel.parts.map(now));
      const [from, to] = isMoving ? this.rowsInView() : [0, this.rows.length];
      this.chart.panels.forEach((panel, at) => this.chooseLevel(panel, at, states[at], isMoving));
      this.rows.slice(from, to).forEach((row, at) => this.moveBars(states, row, from + at));
      return to - from === this.rows.length;
    }

    /* Of rows that are equally high. */
    rowsInView() {
      const { rows } = this, box = this.scroll.getBoundingClientRect();
      if (rows.length === 0) return [0, 0];
      const first = rows[0].row.getBoundingClientRect(), last = rows[rows.length - 1].row.getBoundingClientRect();
      const high = (last.bottom - first.top) / rows.length, place = y => (y - first.top) / high;
      const end = clamp(Math.ceil(place(Math.min(box.bottom, innerHeight))) + 1, 0, rows.length);
      return [clamp(Math.floor(place(Math.max(box.top, 0))) - 1, 0, end), end];
    }

    /* The axis that holds every bar, and its ticks in place of those that are there. */
    chooseLevel(panel, at, parts, isMoving) {
      const length = row => parts.map(part => part[row]).reduce((a, b) => (panel.stacked ? a + b : Math.max(a, b)));
      const longest = Math.max(...parts[0].map((_, row) => length(row))) * (1 - 1e-5), was = this.chosen[at];
      const stays = was && longest <= was.x.hi && (isMoving || longest >= LEAST_SHARE * was.x.hi);
      if (stays) return;
      const level = this.levels[at].findLast(({ x }) => x.hi >= longest) || this.levels[at][0];
      this.chosen[at] = level;
      const ticks = this.ticks[at], [line, label] = [ticks.querySelector('path'), ticks.querySelector('text')];
      const [, top, , bottom] = line.getAttribute('d').match(/[\d.]+/g);
      ticks.replaceChildren(...level.ticks.flatMap(([x, text], index) => {
        const copies = [line.cloneNode(), label.cloneNode()];
        copies[0].setAttribute('d', `M${x} ${top}L${x} ${bottom}`);
        copies[1].setAttribute('x', x);
        copies[1].setAttribute('text-anchor', index === 0 ? 'start' : 'middle');
        copies[1].textContent = text;
        return copies;
      }));
    }

    /* Bars and numbers of a row in the order in which they were drawn: by panel, then by part. A length of which nothing is known is null. */
    moveBars(states, { bars, values }, row) {
      let bar = 0, value = 0;
      this.chart.panels.forEach((panel, p) => {
        const { x: axis } = this.chosen[p];
        const write = (length, shown) => {
          const text = values[value++], shift = Number(text.getAttribute('font-size')) * 0.43;
          text.setAttribute('x', (toPixel(axis, length) + shift).toFixed(2));
          text.textContent = show(axis.unit, shown);
        };
        let sum = 0, isKnown = true;
        panel.parts.forEach((_, part) => {
          const length = states[p][part][row], from = toPixel(axis, sum);
          bars[bar].setAttribute('x', from.toFixed(2));
          bars[bar++].setAttribute('width', Math.max(toPixel(axis, sum + length) - from, 0).toFixed(2));
          isKnown = isKnown && length !== null;
          if (panel.stacked) sum += length; else write(length, length);
        });
        if (panel.stacked) write(sum, isKnown ? sum : null);
      });
    }
  }

  return (figure, chart) => new Bars(figure, chart);
})();
