// Elements of a page. Text of a file only ever becomes text nodes.

function element(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

function fill(id, ...children) {
  const place = document.getElementById(id);
  place.replaceChildren(...children);
  return place;
}

function row_of(...cells) {
  return element("tr", {}, ...cells.map((cell) => element("td", {}, cell)));
}
