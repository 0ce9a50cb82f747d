/* Tables that the reader sorts, searches and saves. */
const bringTable = (() => {
  const MANY_ROWS = 12; /* a table with more rows can be searched */

  function addSearch(box, tools, rows) {
    const search = element('input', tools, 'search');
    search.type = 'search';
    search.placeholder = `Find among ${rows.length} rows`;
    search.setAttribute('aria-label', search.placeholder);
    tools.prepend(search);
    search.addEventListener('input', () => {
      const wanted = search.value.toLowerCase();
      rows.forEach(({ row }) => { row.hidden = !row.textContent.toLowerCase().includes(wanted); });
    });
  }

  return (box, table) => {
    const body = box.querySelector('tbody');
    const rows = [...body.rows].map((row, at) => ({ row, at, name: row.cells[0].textContent }));
    const heads = [...box.querySelectorAll('thead th')];
    const sorted = { column: -1, sign: 1 };
    const value = (column, at) => (column.text ? column.text[at] : now(column.values)[at]);
    const tools = element('div', box, 'tools');
    box.prepend(tools);
    /* A number, with its unit or without. */
    const NUMBER = /^(-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)( \S+)?$/;
    const number = text => Number.parseFloat((text.match(NUMBER) || ['', ''])[1].replaceAll(',', ''));

    /* Numbers first, as such; other text stands behind them, whatever the order. */
    function compareTexts(one, other, sign) {
      const [left, right] = [number(one), number(other)], [isText, isOtherText] = [left, right].map(Number.isNaN);
      if (isText !== isOtherText) return isText - isOtherText;
      return sign * ((left - right) || one.localeCompare(other, 'en', { numeric: true }));
    }

    function sort() {
      const column = table.columns[sorted.column];
      if (!column) return;
      const compare = column.text
        ? (a, b) => compareTexts(value(column, a.at), value(column, b.at), sorted.sign)
        : (a, b) => {
          const [left, right] = [value(column, a.at), value(column, b.at)];
          /* Empty cells stand last, whatever the order. */
          if (left === null || right === null) return (left === null) - (right === null);
          return sorted.sign * (left - right);
        };
      const before = rows.slice();
      rows.sort((a, b) => compare(a, b) || a.at - b.at);
      if (rows.some((row, at) => row !== before[at])) body.append(...rows.map(({ row }) => row));
    }

    heads.forEach((head, at) => head.querySelector('button').addEventListener('click', () => {
      const first = table.columns[at].text ? 1 : -1; /* the largest numbers first, as a reader looks for them */
      sorted.sign = sorted.column === at ? -sorted.sign : first;
      sorted.column = at;
      heads.forEach(other => other.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', sorted.sign > 0 ? 'ascending' : 'descending');
      sort();
    }));
    const byName = new Map();
    rows.forEach(({ row, name }) => {
      lights(row, name);
      if (!byName.has(name)) byName.set(name, []);
      byName.get(name).push(row);
    });
    let on = [];
    lit.push(name => {
      on.forEach(row => row.classList.remove('on'));
      on = byName.get(name) || [];
      on.forEach(row => row.classList.add('on'));
    });
    rowsNamed.push(name => {
      const row = (byName.get(name) || [])[0];
      if (!row) return false;
      row.tabIndex = -1;
      row.scrollIntoView({ block: 'center' });
      row.focus({ preventScroll: true });
      light(name);
      return true;
    });
    if (rows.length > MANY_ROWS) addSearch(box, tools, rows);
    button(element('span', tools, 'files'), 'CSV', 'Save the rows that are seen as comma-separated values', () => {
      const seen = rows.filter(({ row }) => !row.hidden);
      const titles = heads.map(head => head.textContent), title = box.querySelector('caption').textContent;
      save(csvText([titles, ...seen.map(({ at }) => table.columns.map(column => value(column, at)))]), title, 'csv');
    });
    const moving = table.columns.map((column, at) => [column, at]).filter(([column]) => !column.text && follows(column.values));
    if (moving.length) follow(body, isMoving => {
      /* While a slider moves, the rows out of view are left for later. */
      const seen = isMoving ? rows.filter(({ row }) => isInView(row.getBoundingClientRect())) : rows.slice();
      moving.forEach(([column, cell]) => {
        const values = now(column.values);
        seen.forEach(({ row, at }) => { row.cells[cell].textContent = show(column.unit, values[at]); });
      });
      sort();
      return seen.length === rows.length;
    });
  };
})();
