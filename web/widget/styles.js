/**
 * How the widget looks: a style sheet of its shadow root, made by script, which no policy of the site forbids. The host gives up
 * everything that the site's style sheets say about it; inside, they say nothing.
 */

const SHEET = `
:host { all: initial !important; display: block !important; position: fixed !important; inset: auto 0 0 auto !important;
  width: 0 !important; height: 0 !important; z-index: 2147483000 !important; color-scheme: light dark !important; }
:host([data-theme="light"]) { color-scheme: light !important; }
:host([data-theme="dark"]) { color-scheme: dark !important; }
*, *::before, *::after { box-sizing: border-box; }
.root {
  --ground: light-dark(#ffffff, #1b1f20); --soft: light-dark(#f2f1ec, #272c2d); --ink: light-dark(#1f2628, #e7e9e6);
  --ink-soft: light-dark(#566064, #a9b1af); --line: light-dark(#dedbd3, #363c3c); --edge: light-dark(#808683, #7d8684);
  --fault: light-dark(#a3341f, #f0a28f); --focus: light-dark(#1f2628, #e7e9e6);
  color: var(--ink); font: 400 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", sans-serif;
  text-align: start; }
[hidden] { display: none !important; }
button, textarea { font: inherit; color: inherit; margin: 0; }
button { cursor: pointer; border: 0; background: none; padding: 0; }
button:disabled { cursor: default; }
:focus-visible { outline: 2px solid var(--focus); outline-offset: 2px; }
.icon { display: block; width: 22px; height: 22px; fill: none; stroke: currentcolor; stroke-width: 1.7; stroke-linecap: round; stroke-linejoin: round; }
.launch { position: fixed; inset: auto 20px 20px auto; width: 56px; height: 56px; border-radius: 50%; display: grid; place-items: center;
  background: var(--accent); color: var(--accent-ink); box-shadow: 0 2px 6px rgb(0 0 0 / 18%), 0 8px 28px rgb(0 0 0 / 18%); transition: transform 120ms ease; }
.launch:hover { transform: scale(1.05); }
.launch .icon { width: 26px; height: 26px; }
.badge { position: absolute; inset: -3px -3px auto auto; min-width: 20px; height: 20px; padding: 0 5px; border-radius: 10px;
  background: #b3261e; color: #ffffff; font-size: 12px; line-height: 20px; font-weight: 600; text-align: center; }
.panel { position: fixed; inset: auto 20px 88px auto; width: 384px; height: min(620px, calc(100vh - 108px)); display: flex; flex-direction: column;
  background: var(--ground); border: 1px solid var(--line); border-radius: 16px; overflow: hidden; box-shadow: 0 4px 12px rgb(0 0 0 / 10%), 0 16px 48px rgb(0 0 0 / 20%); }
.top { display: flex; align-items: center; gap: 8px; padding: 14px 12px 14px 18px; background: var(--accent); color: var(--accent-ink); }
.top :focus-visible, .launch:focus-visible { outline-color: var(--focus); box-shadow: 0 0 0 4px var(--ground); }
.title { flex: 1; margin: 0; min-width: 0; font-size: 16px; line-height: 1.3; font-weight: 600; overflow-wrap: anywhere; }
.top button { width: 36px; height: 36px; border-radius: 10px; display: grid; place-items: center; }
.top .person { width: auto; padding: 0 12px; border: 1px solid currentcolor; font-size: 13px; font-weight: 600; white-space: nowrap; }
.top button:hover { background: rgb(127 127 127 / 28%); }
.status { padding: 8px 18px; background: var(--soft); border-bottom: 1px solid var(--line); color: var(--ink); font-size: 13px; }
.status:empty { display: none; }
.log { flex: 1; min-height: 0; overflow-y: auto; overscroll-behavior: contain; padding: 18px; }
.list { display: flex; flex-direction: column; gap: 10px; margin: 0; padding: 0; list-style: none; }
.said { max-width: 86%; align-self: flex-start; display: flex; flex-direction: column; gap: 2px; }
.said.own { align-self: flex-end; align-items: flex-end; }
.who { color: var(--ink-soft); font-size: 12px; padding: 0 4px; }
.bubble { padding: 9px 13px; border-radius: 14px; background: var(--soft); overflow-wrap: anywhere; }
.own .bubble { background: var(--accent); color: var(--accent-ink); white-space: pre-wrap; border-end-end-radius: 4px; }
.said:not(.own) .bubble { border-end-start-radius: 4px; }
.agent .bubble { background: var(--ground); border: 1px solid var(--edge); }
.own.pending .bubble { background: var(--soft); color: var(--ink); border: 1px dashed var(--edge); }
.bubble p, .bubble ul, .bubble ol, .bubble pre { margin: 0 0 8px; }
.bubble > :last-child { margin-bottom: 0; }
.bubble ul, .bubble ol { padding-inline-start: 20px; }
.bubble a { color: inherit; text-decoration: underline; text-underline-offset: 2px; }
.bubble code { font-family: ui-monospace, "SF Mono", "Cascadia Mono", "Liberation Mono", monospace; font-size: 13px; }
.bubble pre { overflow-x: auto; padding: 10px; border-radius: 8px; background: var(--ground); border: 1px solid var(--line); }
.note { color: var(--ink-soft); font-size: 12px; padding: 0 4px; }
.note.fault { color: var(--fault); }
.note button, .more { text-decoration: underline; text-underline-offset: 2px; }
.more { display: block; margin: 0 auto 12px; color: var(--ink-soft); font-size: 13px; }
.dots { display: inline-flex; gap: 4px; padding: 5px 0; }
.dots i { width: 7px; height: 7px; border-radius: 50%; background: var(--ink-soft); animation: wait 1.2s infinite ease-in-out; }
.dots i:nth-child(2) { animation-delay: 0.15s; }
.dots i:nth-child(3) { animation-delay: 0.3s; }
@keyframes wait { 0%, 60%, 100% { opacity: 0.35; } 30% { opacity: 1; } }
.rating { padding: 12px 18px; border-top: 1px solid var(--line); text-align: center; }
.asked { border: 0; margin: 0; padding: 0; min-width: 0; }
.tell { display: flex; gap: 8px; align-items: flex-end; margin-top: 6px; }
.tell textarea { flex: 1; min-width: 0; max-height: 96px; resize: none; field-sizing: content; padding: 6px 10px; border: 1px solid var(--edge); border-radius: 10px; background: var(--ground); }
.tell textarea::placeholder { color: var(--ink-soft); opacity: 1; }
.tell button { padding: 7px 12px; border: 1px solid var(--edge); border-radius: 10px; font-weight: 600; }
.tell button:hover { background: var(--soft); }
.rating legend { float: left; width: 100%; padding: 0; margin-bottom: 4px; font-weight: 600; }
.stars { display: flex; justify-content: center; gap: 2px; clear: both; }
.stars button { width: 40px; height: 40px; display: grid; place-items: center; border-radius: 10px; color: var(--ink-soft); }
.stars button:hover, .stars button[aria-pressed="true"] { color: light-dark(#8a5a00, #ffca5c); }
.stars button[aria-pressed="true"] .icon { fill: currentcolor; }
.thanks { margin: 4px 0 0; color: var(--ink-soft); font-size: 13px; }
.thanks:empty { display: none; }
.anew { margin: 10px auto 2px; padding: 8px 16px; border-radius: 10px; border: 1px solid var(--edge); font-weight: 600; display: block; }
.anew:hover { background: var(--soft); }
.write { display: flex; align-items: flex-end; gap: 8px; padding: 12px; border-top: 1px solid var(--line); }
.write textarea { flex: 1; min-width: 0; max-height: 128px; min-height: 42px; resize: none; field-sizing: content; padding: 9px 12px; border: 1px solid var(--edge);
  border-radius: 12px; background: var(--ground); font-size: 15px; line-height: 22px; }
.write textarea::placeholder { color: var(--ink-soft); opacity: 1; }
.write textarea:focus-visible { outline-offset: -1px; }
.go { flex: none; width: 42px; height: 42px; border-radius: 12px; display: grid; place-items: center; background: var(--accent); color: var(--accent-ink); }
.go:disabled { background: var(--soft); color: var(--ink-soft); }
.heard { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
@media (max-width: 480px), (max-height: 460px) {
  .panel { inset: 0; width: auto; height: auto; border: 0; border-radius: 0; }
  .top { padding-top: max(14px, env(safe-area-inset-top)); }
  .write { padding-bottom: max(12px, env(safe-area-inset-bottom)); }
  .write textarea { font-size: 16px; }
  .root.open .launch { display: none; }
}
@media (prefers-reduced-motion: reduce) { *, *::before { animation: none !important; transition: none !important; scroll-behavior: auto !important; } }
`;

/** @param {string} accent @param {string} ink */
export function styleSheets(accent, ink) {
  return [SHEET, `.root { --accent: ${accent}; --accent-ink: ${ink}; }`].map((text) => {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(text);
    return sheet;
  });
}
