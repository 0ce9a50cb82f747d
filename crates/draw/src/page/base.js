/* What all parts of a page's script share: its data, elements, values that follow sliders, names that light up. Text only ever
   enters as text, never as markup. */
const data = JSON.parse(document.getElementById('data').textContent);
const sliders = data.sliders.map((_, at) => document.getElementById('slider' + at));
const fields = data.fields.map((_, at) => document.getElementById('field' + at));
const positions = sliders.map(slider => slider.valueAsNumber);
const updates = []; /* who shows what the sliders say, see follow() */

const clamp = (value, least, most) => Math.min(Math.max(value, least), most);

function element(tag, parent, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

/* A button that says in a sentence what it does. */
function button(parent, text, about, act) {
  const made = element('button', parent, '', text);
  made.type = 'button';
  made.title = about;
  made.addEventListener('click', act);
  return made;
}

/* The value of states where the sliders stand. States are named by their index in the pool. */
function now(at) {
  const { sliders: followed, states } = data.pool[at];
  return states[followed.reduce((sum, slider) => sum * data.sliders[slider].positions.length + positions[slider], 0)];
}

const follows = at => data.pool[at].sliders.length > 0;

const isInView = ({ top, bottom }) => bottom > 0 && top < innerHeight;

/* Calls a function for every position of the sliders, with whether one is still moving. Then it is left for later where the
   element is out of view, so that a slider moves smoothly on a page of hundreds of rows; so is what the function leaves
   undone, if it returns false. */
function follow(seen, act) {
  updates.push({ seen, act, isStale: false });
}

function updateAll(isMoving, which = () => true) {
  /* All is looked at before anything changes, or each look would lay out the page anew. */
  const looked = updates.filter(which).map(one => [one, isInView(one.seen.getBoundingClientRect())]);
  looked.forEach(([one, isSeen]) => {
    one.isStale = isMoving && !isSeen || one.act(isMoving) === false;
  });
}

/* What comes into view is shown as the sliders say. */
addEventListener('scroll', eachFrame(() => updateAll(true, one => one.isStale)), { capture: true, passive: true });

/* Calls a function at most once before each picture that the browser shows, with what was said last. */
function eachFrame(act) {
  let waiting = null;
  return (...words) => {
    if (waiting === null) requestAnimationFrame(() => {
      const said = waiting;
      waiting = null;
      act(...said);
    });
    waiting = words;
  };
}

/* ---- Lighting up: one name at a time, wherever it occurs ---- */

const lit = []; /* functions that light up a name, or nothing for null */
let lighted = null;

function light(name) {
  if (name === lighted) return;
  lighted = name;
  lit.forEach(change => change(name));
}

/* Lets an element light up its name while it is pointed at. */
function lights(target, name) {
  target.addEventListener('pointerenter', () => light(name));
  target.addEventListener('pointerleave', () => light(null));
}

/* Functions that show the row of a name in a table; each says whether it has one. */
const rowsNamed = [];
