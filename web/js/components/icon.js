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
  close: "M6 6l12 12M18 6L6 18",
  leave: "M10 5H5v14h5M14 8l4 4-4 4M18 12H9",
  alert: "M12 4l9 16H3zM12 10v4.5M12 17.2v.3",
};

/** @param {{name: keyof typeof PATHS}} props */
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
