// What every page uses.
const shown = text => text.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/ /g, "␣");

function element(name, attributes, text) {
  const svg = ["path", "text", "rect", "line", "title"].includes(name);
  const node = svg ? document.createElementNS("http://www.w3.org/2000/svg", name)
                   : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

// Ticks of a scale from low to high: powers of ten of logarithms, or thirds.
const powers = (low, high) => {
  const ticks = [];
  for (let e = Math.ceil(low); e <= high; ++e) ticks.push(10 ** e);
  return ticks.length ? ticks : [Number((10 ** low).toPrecision(2)), Number((10 ** high).toPrecision(2))];
};
const thirds = (low, high) => [low, (low + high) / 2, high].map(v => Number(v.toFixed(3)));

// Draws series [{name, values}] into the <svg> of that id, side by side from left to right. How: scale of a value,
// ticks, color of a series, opacity, label of an index.
function lines(id, series, how) {
  const {scale = v => v, ticks = thirds, color, opacity = 0.9, label = i => i} = how;
  const svg = document.getElementById(id);
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const left = 60, right = 12, top = 12, bottom = 26;
  const values = series.flatMap(one => one.values).map(scale).filter(Number.isFinite);
  let low = Math.min(...values), high = Math.max(...values);
  if (low === high) { low -= 1; high += 1; }
  const count = Math.max(...series.map(one => one.values.length));
  const x = i => left + (width - left - right) * (count < 2 ? 0.5 : i / (count - 1));
  const y = value => top + (height - top - bottom) * (1 - (scale(value) - low) / (high - low));
  for (const tick of ticks(low, high)) {
    const at = y(tick);
    svg.append(element("line", {x1: left, x2: width - right, y1: at, y2: at, stroke: "var(--line)"}));
    svg.append(element("text", {x: left - 6, y: at + 4, "text-anchor": "end"}, tick));
  }
  for (let i = 0; i < count; i += Math.max(1, Math.ceil(count / 15))) {
    svg.append(element("text", {x: x(i), y: height - 8, "text-anchor": "middle"}, label(i)));
  }
  series.forEach((one, s) => {
    const points = one.values.map((value, i) => [x(i), y(value)]).filter(([, at]) => Number.isFinite(at));
    const path = points.map(([px, py], i) => `${i ? "L" : "M"}${px.toFixed(1)} ${py.toFixed(1)}`).join("");
    const line = element("path", {d: path, fill: "none", stroke: color(s), "stroke-width": 1.4, opacity});
    line.append(element("title", {}, one.name));
    svg.append(line);
  });
}

// Fills a <table> with cells [row][column] = {text, share of the darkest, title}; arrows walk in it, and chosen(row,
// column) hears where. Rows come in the order of `rowNames`, first on top. Returns what chooses a cell.
function heatTable(table, columnNames, rowNames, cellOf, chosen) {
  const head = element("thead"), body = element("tbody"), headRow = element("tr"), cells = [];
  headRow.append(element("th", {scope: "col"}, ""));
  columnNames.forEach(name => headRow.append(element("th", {scope: "col"}, name)));
  head.append(headRow);
  const choose = (row, column) => {
    table.querySelectorAll("td.on").forEach(cell => cell.classList.remove("on"));
    cells[row][column].classList.add("on");
    chosen(row, column);
  };
  rowNames.forEach((name, row) => {
    const line = element("tr");
    line.append(element("th", {scope: "row"}, name));
    cells[row] = columnNames.map((_, column) => {
      const {text, share, title} = cellOf(row, column);
      const cell = element("td", {tabindex: row + column ? -1 : 0, title}, text);
      cell.style.background = `rgba(var(--cell), ${(0.75 * share).toFixed(3)})`;
      cell.addEventListener("mouseenter", () => choose(row, column));
      cell.addEventListener("focus", () => choose(row, column));
      cell.addEventListener("keydown", event => {
        const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
        if (!step) return;
        event.preventDefault();
        const next = cells[row + step[0]] && cells[row + step[0]][column + step[1]];
        if (next) next.focus();
      });
      line.append(cell);
      return cell;
    });
    body.append(line);
  });
  table.replaceChildren(head, body);
  return choose;
}
