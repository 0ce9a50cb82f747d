/* Brings the page to life: sentences, sliders, fields, figures, and the address that keeps what the reader chose. */

function bringSentences(list, { texts, sentences }) {
  if (follows(sentences)) follow(list, () => {
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
  const factor = ({ given, field }) => (given === undefined ? fieldValue(field) : now(given));
  const product = factors => factors.reduce((result, one) => result * factor(one), 1);
  const shown = document.querySelectorAll('.figure > dd:first-of-type');
  data.figures.forEach(({ unit, over, under }, at) => {
    shown[at].textContent = show(unit, product(over) / product(under));
  });
}

function update(isMoving) {
  sliders.forEach((slider, at) => {
    positions[at] = slider.valueAsNumber;
    const text = show(data.sliders[at].unit, data.sliders[at].positions[positions[at]]);
    slider.parentElement.querySelector('output').textContent = text;
    slider.setAttribute('aria-valuetext', text);
  });
  updateFigures();
  updateAll(isMoving);
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

const bring = { lines: bringLines, choice: bringChoice, bars: bringBars, table: bringTable, sentences: bringSentences };
[...document.querySelectorAll('[data-item]')].forEach((found, at) => bring[data.items[at].kind](found, data.items[at]));
[...sliders, ...fields].forEach(control => {
  control.addEventListener('input', () => update(true));
  control.addEventListener('change', () => { update(false); writeAddress(); });
});
addEventListener('hashchange', () => { readAddress(); update(false); });
readAddress();
update(false);
document.documentElement.classList.add('alive');
