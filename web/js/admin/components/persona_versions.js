/**
 * What a persona has said, as far as conversations go on with it, and a way back to any of them.
 *
 * @import { Persona, PersonaVersion } from "../wire.d.ts"
 */

import { useTexts } from "../../components/language.js";
import { html } from "../../html.js";
import * as adminTexts from "../../texts/admin.js";
import * as texts from "../../texts/admin_bots.js";
import { dateTime } from "../format.js";
import { useDesk, useListing, useNotice } from "./desk.js";
import { Dialog } from "./dialog.js";

/** @param {{persona: Persona, onClose: () => void, onSaved: () => unknown}} props */
export function PersonaVersions({ persona, onClose, onSaved }) {
  const { t, say, language } = useTexts(texts);
  const { t: general } = useTexts(adminTexts);
  const { api } = useDesk();
  const notice = useNotice();
  const { name } = persona;
  const listing = useListing((cursor) => api.personaVersions(name, cursor), [name]);
  const restore = async (/** @type {PersonaVersion} */ version) => {
    try {
      await api.changePersona(name, { system_prompt: version.system_prompt, params: version.params });
    } catch (problem) {
      listing.fail(problem);
      return;
    }
    notice(t("restored", { name }));
    onSaved();
    onClose();
  };
  return html`
    <${Dialog} title=${t("versionsOf", { name })} isWide onClose=${onClose}>
      ${listing.problem !== null && html`<p class="fault-line" role="alert">${say(listing.problem)}</p>`}
      ${listing.items.length === 0 && listing.isLoading && html`<p class="empty">${general("loading")}</p>`}
      <ul class="versions">
        ${listing.items.map((version) => {
          const time = dateTime(version.created_at, language);
          return html`
            <li key=${version.id}>
              <div class="version-head">
                ${version.is_current && html`<b>${t("versionCurrent")}</b>`}
                <span>${t("versionSince", { time })}</span>
                <span>${t("versionUsed", { count: version.conversations })}</span>
                ${!version.is_current &&
                html`<button type="button" class="button button-small push" aria-label=${t("restoreOf", { name, time })} onClick=${() => restore(version)}>${t("restore")}</button>`}
              </div>
              <p class="version-text" dir="auto">${version.system_prompt}</p>
            </li>
          `;
        })}
      </ul>
      ${listing.hasMore && html`<button type="button" class="button more-button" onClick=${listing.more}>${general("more")}</button>`}
    <//>
  `;
}
