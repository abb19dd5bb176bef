"use strict";
(() => {
  const key = (row, place) => row.cells[place].dataset.key;

  const compare = (left, right) => {
    const [a, b] = [Number(left), Number(right)];
    return Number.isNaN(a) || Number.isNaN(b) ? left.localeCompare(right, "en", { numeric: true }) : a - b;
  };

  const sort = (head) => {
    const place = head.cellIndex;
    const body = head.closest("table").tBodies[0];
    const numbers = head.classList.contains("number");
    const before = head.getAttribute("aria-sort");
    const order = before === null ? (numbers ? "descending" : "ascending") : before === "ascending" ? "descending" : "ascending";
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const rows = [...body.rows].sort((one, two) => {
      const [a, b] = [key(one, place), key(two, place)];
      if (a === "" || b === "") return Number(a === "") - Number(b === "");
      return sign * compare(a, b);
    });
    body.append(...rows);
  };

  for (const head of document.querySelectorAll("table.sortable thead th")) {
    head.querySelector("button").addEventListener("click", () => sort(head));
  }

  const dialog = document.querySelector("dialog");
  const place = dialog.querySelector("div");
  for (const figure of document.querySelectorAll("figure")) {
    const open = () => {
      const copy = figure.querySelector("svg").cloneNode(true);
      for (const part of copy.querySelectorAll("[id]")) part.removeAttribute("id");
      copy.removeAttribute("id");
      place.replaceChildren(copy);
      dialog.setAttribute("aria-label", copy.getAttribute("aria-label"));
      dialog.showModal();
    };
    figure.querySelector("button.open").addEventListener("click", open);
    figure.querySelector("svg").addEventListener("click", open);
  }
  dialog.addEventListener("close", () => place.replaceChildren());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });

  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", async () => {
      const code = button.parentElement.querySelector("code");
      getSelection().selectAllChildren(code); // remains for the keyboard where the clipboard is closed
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "copied";
      } catch {
        button.textContent = "selected";
      }
    });
  }

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const details of closed) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of closed) details.open = false;
  });
})();
