/**
 * ‹ 2 / 3 › between the siblings of a message: other wordings of a question, other answers to it.
 *
 * @import { Commands } from "../commands.js"
 */

import { html } from "../html.js";
import { Icon } from "./icon.js";

/**
 * @param {{commands: Commands, siblingIndex: number, siblingCount: number, previousId: string | null, nextId: string | null}} props
 */
export function BranchArrows({ commands, siblingIndex, siblingCount, previousId, nextId }) {
  if (siblingCount < 2) return null;
  const place = `${siblingIndex + 1} of ${siblingCount}`;
  return html`
    <span class="branches" role="group" aria-label="Version ${place}">
      <${Arrow} to=${previousId} label="Previous version" icon="left" commands=${commands} />
      <span class="branch-place" aria-hidden="true">${siblingIndex + 1} / ${siblingCount}</span>
      <${Arrow} to=${nextId} label="Next version" icon="right" commands=${commands} />
    </span>
  `;
}

/** @param {{to: string | null, label: string, icon: "left" | "right", commands: Commands}} props */
function Arrow({ to, label, icon, commands }) {
  // aria-disabled instead of disabled: the focus stays where it is when the last version is reached.
  return html`
    <button
      type="button"
      class="icon-button"
      aria-label=${label}
      title=${label}
      aria-disabled=${to === null ? "true" : null}
      onClick=${() => to !== null && commands.showBranch(to)}
    >
      <${Icon} name=${icon} />
    </button>
  `;
}
