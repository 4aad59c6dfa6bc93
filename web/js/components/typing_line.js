/** That a person is writing an answer; goes by itself when nothing more is heard of it. */

import { useEffect, useState } from "../../vendor/preact/hooks.js";
import { html } from "../html.js";
import * as chat from "../texts/chat.js";
import { useTexts } from "./language.js";

const SHOWN_MS = 6000;

/** @param {{name: string}} props */
export function TypingLine({ name }) {
  const { t } = useTexts(chat);
  const [isOver, setOver] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setOver(true), SHOWN_MS);
    return () => clearTimeout(timer);
  }, []);
  if (isOver) return null;
  return html`<p class="answer-state is-waiting"><span class="answer-state-words" dir="auto">${t("personTypes", { name })}</span></p>`;
}
