/**
 * ‹ 2 / 3 › between the siblings of a message: other wordings of a question, other answers to it.
 *
 * @import { Commands } from "../commands.js"
 */

import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { Icon } from "./icon.js";
import { useTexts } from "./language.js";

/**
 * @param {{commands: Commands, siblingIndex: number, siblingCount: number, previousId: string | null, nextId: string | null}} props
 */
export function BranchArrows({ commands, siblingIndex, siblingCount, previousId, nextId }) {
  const { t } = useTexts(chat);
  if (siblingCount < 2) return null;
  return html`
    <span class="branches" role="group" aria-label=${t("version", { place: siblingIndex + 1, count: siblingCount })}>
      <${Arrow} to=${previousId} label=${t("previousVersion")} icon="left" commands=${commands} />
      <span class="branch-place" aria-hidden="true">${siblingIndex + 1} / ${siblingCount}</span>
      <${Arrow} to=${nextId} label=${t("nextVersion")} icon="right" commands=${commands} />
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
