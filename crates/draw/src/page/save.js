/* Charts and tables as files: SVG, PNG and CSV. A picture has the colours of the light page and says where its data come from. */

const PNG_SCALE = 2;

/* A file of this text or these bytes, named after what it shows. */
function save(contents, title, ending) {
  const types = { svg: 'image/svg+xml', csv: 'text/csv' };
  const blob = contents instanceof Blob ? contents : new Blob([contents], { type: types[ending] + ';charset=utf-8' });
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = `${title.replace(/[^\p{L}\p{N}]+/gu, '-').replace(/^-|-$/g, '').toLowerCase() || 'chart'}.${ending}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const csvText = rows => rows.map(row => row.map(cell => {
  const text = cell === null || cell === undefined ? '' : String(cell);
  return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}).join(',') + '\n').join('');

/* The style sheet's first rule has the light colours. */
function lightColours() {
  const { style } = document.styleSheets[0].cssRules[0];
  return text => text.replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
}

/* A chart of the page as a picture of its own. */
function pictureText(svg, title) {
  const copy = svg.cloneNode(true), resolve = lightColours(), [, top, width, height] = svg.getAttribute('viewBox').split(' ').map(Number);
  const font = Number(svg.getAttribute('font-size')), { node } = drawLines, lines = noteLines(width - 2 * font, font);
  const foot = lines.length ? (lines.length + 0.5) * 1.3 * font : 0, head = 1.8 * font;
  copy.querySelectorAll('.on').forEach(part => part.classList.remove('on'));
  const parts = [...copy.childNodes];
  copy.replaceChildren();
  for (const name of ['tabindex', 'aria-labelledby', 'class']) copy.removeAttribute(name);
  const all = { width, height: height + head + foot, viewBox: `0 ${top - head} ${width} ${height + head + foot}` };
  Object.entries(all).forEach(([name, value]) => copy.setAttribute(name, value));
  copy.setAttribute('font-family', "Helvetica, Arial, 'Liberation Sans', sans-serif");
  node('title', copy, {}, title);
  node('rect', copy, { y: top - head, width, height: height + head + foot, fill: 'var(--card)' });
  node('text', copy, { x: font * 0.3, y: top - 0.5 * font, 'font-weight': 'bold', fill: 'var(--ink)' }, title);
  copy.append(...parts);
  lines.forEach((line, at) => node('text', copy, { x: font, y: top + height + (at + 0.75) * 1.3 * font, fill: 'var(--muted)' }, line));
  copy.querySelectorAll('*').forEach(part => ['fill', 'stroke'].forEach(name => {
    if (part.hasAttribute(name)) part.setAttribute(name, resolve(part.getAttribute(name)));
  }));
  return new XMLSerializer().serializeToString(copy);
}

/* Where the data come from, in lines. */
function noteLines(most, font) {
  const lines = [];
  (data.note || '').split(' ').filter(word => word).forEach(word => {
    const longer = lines.length ? `${lines[lines.length - 1]} ${word}` : word;
    if (lines.length && widthOf(longer, font) <= most) lines[lines.length - 1] = longer;
    else lines.push(shorten(word, most, font));
  });
  return lines;
}

async function savePng(svg, title) {
  const text = pictureText(svg, title), image = new Image();
  image.src = 'data:image/svg+xml;charset=utf-8,' + encodeURIComponent(text);
  await image.decode();
  const canvas = document.createElement('canvas');
  [canvas.width, canvas.height] = [image.width * PNG_SCALE, image.height * PNG_SCALE];
  canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
  canvas.toBlob(blob => save(blob, title, 'png'), 'image/png');
}

function addPictureButtons(box, svg, title) {
  button(box, 'SVG', 'Save the chart as it is seen as a vector picture', () => save(pictureText(svg(), title()), title(), 'svg'));
  button(box, 'PNG', 'Save the chart as it is seen as a picture', () => savePng(svg(), title()));
}
