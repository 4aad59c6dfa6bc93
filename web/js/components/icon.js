/**
 * Icons, drawn here as lines on a 24-unit grid. Decoration only: the button around one carries the words.
 */

import { html } from "../html.js";

const PATHS = {
  menu: "M4 7h16M4 12h16M4 17h16",
  plus: "M12 5v14M5 12h14",
  send: "M12 19V5M6 11l6-6 6 6",
  copy: "M9 9h10v10H9zM15 9V5H5v10h4",
  check: "M5 12.5l4.5 4.5L19 7.5",
  refresh: "M19 12a7 7 0 1 1-2-4.9M19 4v4h-4",
  pencil: "M5 19l1-4L16.5 4.5l3 3L9 18l-4 1zM14 7l3 3",
  trash: "M5 7h14M10 7V4.5h4V7M7 7l1 12.5h8L17 7M10.5 10.5v5.5M13.5 10.5v5.5",
  left: "M14.5 6l-6 6 6 6",
  right: "M9.5 6l6 6-6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  up: "M12 19V5M6 11l6-6 6 6",
  close: "M6 6l12 12M18 6L6 18",
  leave: "M10 5H5v14h5M14 8l4 4-4 4M18 12H9",
  alert: "M12 4l9 16H3zM12 10v4.5M12 17.2v.3",
  more: "M5.2 12a.8.8 0 1 0 1.6 0a.8.8 0 1 0-1.6 0M11.2 12a.8.8 0 1 0 1.6 0a.8.8 0 1 0-1.6 0M17.2 12a.8.8 0 1 0 1.6 0a.8.8 0 1 0-1.6 0",
  search: "M11 18a7 7 0 1 1 0-14 7 7 0 0 1 0 14zM16 16l4.5 4.5",
  filter: "M4 7h16M7 12h10M10 17h4",
  tag: "M4 4h7l9 9-7 7-9-9zM8 8h.01",
  archive: "M4 5h16v4H4zM5.5 9v10h13V9M10 13h4",
  download: "M12 4v11M7 10.5l5 5 5-5M5 20h14",
  upload: "M12 16V5M7 9.5l5-5 5 5M5 20h14",
  settings: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.5v5M9 14.5v5",
  keyboard: "M3 6.5h18v11H3zM6.5 10h.01M10 10h.01M13.5 10h.01M17 10h.01M8 14h8",
  inbox: "M4 13l2.5-8h11L20 13v6H4zM4 13h5l1 2.5h4l1-2.5h5",
  gauge: "M4 19a8.5 8.5 0 1 1 16 0M12 15l4-5",
  updown: "M8 10l4-4 4 4M8 14l4 4 4-4",
  clock: "M12 20a8 8 0 1 1 0-16 8 8 0 0 1 0 16zM12 8v4.5l3 2",
  person: "M12 11.5a3.75 3.75 0 1 1 0-7.5 3.75 3.75 0 0 1 0 7.5zM4.5 20a7.5 7.5 0 0 1 15 0",
  liked: "M7 11v9H4v-9zM7 11l4-7.5c1.6 0 2.5 1 2.2 2.6L12.6 9.500H19.500l-1.8 9.300c-.1.7-.7 1.2-1.4 1.200H7",
  disliked: "M7 13V4H4v9zM7 13l4 7.5c1.6 0 2.5-1 2.2-2.6L12.6 14.500H19.500L17.7 5.200C17.6 4.5 17 4 16.3 4H7",
  key: "M14 10a4 4 0 1 1-3.2-3.900M11 10h9.500v3.500M17 10v2.5",
};

/** @typedef {keyof typeof PATHS} IconName */

/** @param {{name: IconName}} props */
export function Icon({ name }) {
  return html`
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d=${PATHS[name]} />
    </svg>
  `;
}

/** A filled square: what stops an answer. */
export function StopIcon() {
  return html`
    <svg class="icon icon-filled" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <rect x="7" y="7" width="10" height="10" rx="1.5" />
    </svg>
  `;
}

/** The mark of Kvasir: a drop, for the mead of poetry. */
export function Mark() {
  return html`
    <svg class="mark" viewBox="0 0 32 32" aria-hidden="true" focusable="false">
      <path class="mark-drop" d="M16 3c5 6.6 9 10.9 9 16a9 9 0 0 1-18 0c0-5.1 4-9.4 9-16z" />
      <path class="mark-shine" d="M11.5 19.5a4.6 4.6 0 0 0 4.6 4.6" />
    </svg>
  `;
}
