// The little that a page cannot do by itself: counting chosen runs, dragging T, and sending an image.
"use strict";

document.addEventListener("change", event => {
  const form = event.target.closest("#runs");
  if (form) {
    const chosen = form.querySelectorAll("[name=run]:checked, [name=run][type=hidden]").length;
    const button = form.querySelector("#compare");
    button.disabled = chosen < 2;
    button.querySelector(".count").textContent = chosen ? ` ${chosen}` : "";
  }
});

document.addEventListener("htmx:sendError", event => {
  event.detail.elt.textContent = "The viewer does not answer: is it still running?";
});

// Only once htmx tells of the form itself does it listen to it; of the body it may tell while the form is put in.
document.addEventListener("htmx:load", event => {
  if (event.detail.elt.id === "try") lay(event.detail.elt);
});

function lay(form) {
  const get = id => form.querySelector(`#${id}`);
  const stage = get("stage"), shown = get("picture"), sprite = get("sprite"), put = get("put"), home = get("home");
  const { base, height, width, most } = form.dataset;
  const own = sprite && { row: +sprite.dataset.row, column: +sprite.dataset.column };
  const size = sprite && { height: +sprite.dataset.height, width: +sprite.dataset.width };
  let place = null, held = null, asking = false, again = false;

  stage.style.aspectRatio = `${width} / ${height}`;

  const picked = () => form.querySelector("[name=picture]:checked");
  const within = (value, most) => Math.max(0, Math.min(Math.round(value), most));

  function show() {
    const choice = picked();
    if (choice) {
      const source = `${base}/picture/${choice.value}${place && !sprite ? "/T" : ""}`;
      if (shown.getAttribute("src") !== source) shown.src = source;
      shown.hidden = false;
    }
    form.elements.row.value = place ? place.row : "";
    form.elements.column.value = place ? place.column : "";
    if (put) {
      put.textContent = place ? "Take T off" : "Put T on";
      put.setAttribute("aria-pressed", String(Boolean(place)));
      put.disabled = !choice;
    }
    const hint = get("hint");
    if (hint) hint.hidden = Boolean(place) || !choice;
    if (!sprite) return;
    sprite.hidden = !place;
    home.hidden = !place || (place.row === own.row && place.column === own.column);
    if (place) {
      sprite.style.left = `${100 * place.column / width}%`;
      sprite.style.top = `${100 * place.row / height}%`;
      sprite.style.width = `${100 * size.width / width}%`;
      sprite.style.height = `${100 * size.height / height}%`;
    }
  }

  // One question at a time: while T is dragged, the next is asked when the last is answered.
  function ask() {
    show();
    if (!picked()) return;
    if (asking) { again = true; return; }
    asking = true;
    htmx.trigger(form, "asked");
  }

  const answers = get("answers");
  answers.addEventListener("htmx:afterRequest", () => {
    asking = false;
    if (again) { again = false; ask(); }
  });

  function moved(to) {
    if (!sprite) { place = to && { row: 0, column: 0 }; return ask(); }
    const next = to && { row: within(to.row, height - size.height), column: within(to.column, width - size.width) };
    if (next && place && next.row === place.row && next.column === place.column) return;
    place = next;
    ask();
  }

  function point(event) {
    const box = stage.getBoundingClientRect();
    return { row: (event.clientY - box.top) / box.height * height, column: (event.clientX - box.left) / box.width * width };
  }

  if (put) {
    put.addEventListener("click", () => moved(place ? null : own || { row: 0, column: 0 }));
    if (home) home.addEventListener("click", () => moved(own));

    stage.addEventListener("pointerdown", event => {
      if (event.button || !picked()) return;
      event.preventDefault();
      stage.focus({ preventScroll: true });
      if (!sprite) { moved(place ? null : {}); return; }
      const at = point(event);
      const inside = place && at.row >= place.row && at.row < place.row + size.height && at.column >= place.column && at.column < place.column + size.width;
      if (!inside) moved({ row: at.row - size.height / 2, column: at.column - size.width / 2 });
      held = { row: at.row - place.row, column: at.column - place.column };
      stage.setPointerCapture(event.pointerId);
      stage.classList.add("held");
    });
    stage.addEventListener("pointermove", event => {
      if (!held) return;
      const at = point(event);
      moved({ row: at.row - held.row, column: at.column - held.column });
    });
    const letGo = () => { held = null; stage.classList.remove("held"); };
    stage.addEventListener("pointerup", letGo);
    stage.addEventListener("pointercancel", letGo);

    stage.addEventListener("keydown", event => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (event.key === "Enter" || event.key === " ") moved(place ? null : own || {});
      else if (step && place && sprite) moved({ row: place.row + step[0], column: place.column + step[1] });
      else return;
      event.preventDefault();
    });
  }

  form.addEventListener("change", event => {
    if (event.target.name === "picture") ask();
  });
  form.addEventListener("submit", event => event.preventDefault());

  async function upload(file) {
    const said = get("about");
    if (file.size > most) {
      said.textContent = `At most ${most / 1e6} MB: scale it down.`;
      return;
    }
    said.textContent = "Sending…";
    try {
      const answer = await fetch(`${base}/upload`, { method: "POST", body: file, headers: { "Content-Type": "application/octet-stream" } });
      const words = await answer.json();
      said.textContent = words.said || `Scaled to ${width} × ${height} pixels, as the models take them.`;
      if (words.picture) add(words.picture, file.name);
    } catch {
      said.textContent = "The image could not be sent: is the viewer still running?";
    }
  }

  function add(key, name) {
    const group = get("uploads"), label = document.createElement("label");
    const radio = document.createElement("input"), image = document.createElement("img"), text = document.createElement("span");
    label.className = "thumb";
    Object.assign(radio, { type: "radio", name: "picture", value: key, checked: true });
    Object.assign(image, { src: `${base}/picture/${key}`, alt: "" });
    text.textContent = name.slice(0, 24);
    label.append(radio, image, text);
    group.querySelector(".thumbs").prepend(label);
    group.hidden = false;
    ask();
  }

  const field = get("upload");
  field.addEventListener("change", () => {
    if (field.files.length) upload(field.files[0]);
    field.value = "";
  });
  stage.addEventListener("dragover", event => event.preventDefault());
  stage.addEventListener("drop", event => {
    event.preventDefault();
    if (event.dataTransfer.files.length) upload(event.dataTransfer.files[0]);
  });

  ask();
}
