/**
 * The administrators' routes, one method per route, over the same `Api` as the chat. Raises Refusal or Unreachable.
 *
 * @import { Api } from "../api.js"
 * @import { Account, ApiKey, AuditEntry, Delivery, Drain, FeedbackSums, LiveSession, Page, Persona, PersonaVersion, Quota, Retention, Server, UsageItem, UsageTotals, Webhook, Widget } from "./wire.d.ts"
 */

const PAGE_ITEMS = "50";

/** @param {string} id */
const part = (id) => encodeURIComponent(id);

/** A query of what has a value. @param {Record<string, string | null | undefined>} values */
function query(values) {
  const filled = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return filled.length === 0 ? "" : `?${new URLSearchParams(/** @type {[string, string][]} */ (filled))}`;
}

export class AdminApi {
  /** @param {Api} api */
  constructor(api) {
    this.api = api;
  }

  /** @param {string} path @param {Record<string, string | null | undefined>} [values] @returns {Promise<any>} */
  get(path, values = {}) {
    return this.api.call("GET", path + query(values));
  }

  /** @param {string | null} cursor @returns {Promise<Page<LiveSession> & {total: number}>} */
  sessions(cursor) {
    return this.get("admin/sessions", { limit: "200", cursor });
  }

  /** @param {string} id */
  evict(id) {
    return this.api.call("POST", `admin/sessions/${part(id)}/evict`);
  }

  /** @param {string} id */
  kick(id) {
    return this.api.call("DELETE", `admin/sessions/${part(id)}`);
  }

  /** @param {string | null} cursor @returns {Promise<Page<Persona>>} */
  personas(cursor) {
    return this.get("personas", { limit: PAGE_ITEMS, cursor });
  }

  /** @param {string} name @param {string | null} cursor @returns {Promise<Page<PersonaVersion>>} */
  personaVersions(name, cursor) {
    return this.get(`personas/${part(name)}/versions`, { limit: PAGE_ITEMS, cursor });
  }

  /** @param {{name: string, system_prompt: string, params: object, handoff_keywords: string[] | null}} persona @param {string} idempotencyKey @returns {Promise<Persona>} */
  createPersona(persona, idempotencyKey) {
    return this.api.call("POST", "personas", { body: persona, idempotencyKey });
  }

  /** @param {string} name @param {{system_prompt: string, params: object, handoff_keywords?: string[] | null}} change @returns {Promise<Persona>} */
  changePersona(name, change) {
    return this.api.call("PATCH", `personas/${part(name)}`, { body: change });
  }

  /** @param {string} name */
  deletePersona(name) {
    return this.api.call("DELETE", `personas/${part(name)}`);
  }

  /** @param {string | null} cursor @returns {Promise<Page<Widget>>} */
  widgets(cursor) {
    return this.get("widgets", { limit: PAGE_ITEMS, cursor });
  }

  /** @param {object} widget @returns {Promise<Widget & {secret: string}>} */
  createWidget(widget) {
    return this.api.call("POST", "widgets", { body: widget });
  }

  /** @param {string} id @param {object} change @returns {Promise<Widget>} */
  changeWidget(id, change) {
    return this.api.call("PATCH", `widgets/${part(id)}`, { body: change });
  }

  /** @param {string} id @param {number} keepPreviousS @returns {Promise<{secret: string}>} */
  rotateWidgetSecret(id, keepPreviousS) {
    return this.api.call("POST", `widgets/${part(id)}/secret`, { body: { keep_previous_s: keepPreviousS } });
  }

  /** @param {string} id */
  deleteWidget(id) {
    return this.api.call("DELETE", `widgets/${part(id)}`);
  }

  /** @param {string | null} cursor @returns {Promise<Page<Webhook>>} */
  webhooks(cursor) {
    return this.get("webhooks", { limit: PAGE_ITEMS, cursor });
  }

  /** @param {object} webhook @returns {Promise<Webhook & {secret: string}>} */
  createWebhook(webhook) {
    return this.api.call("POST", "webhooks", { body: webhook });
  }

  /** @param {string} id @param {object} change @returns {Promise<Webhook>} */
  changeWebhook(id, change) {
    return this.api.call("PATCH", `webhooks/${part(id)}`, { body: change });
  }

  /** @param {string} id @returns {Promise<{secret: string}>} */
  rotateWebhookSecret(id) {
    return this.api.call("POST", `webhooks/${part(id)}/rotate`);
  }

  /** @param {string} id */
  deleteWebhook(id) {
    return this.api.call("DELETE", `webhooks/${part(id)}`);
  }

  /** @param {string} id */
  testWebhook(id) {
    return this.api.call("POST", `webhooks/${part(id)}/test`);
  }

  /** @param {string} id @param {string | null} cursor @param {string} status @returns {Promise<Page<Delivery>>} */
  deliveries(id, cursor, status) {
    return this.get(`webhooks/${part(id)}/deliveries`, { limit: PAGE_ITEMS, cursor, status });
  }

  /** @param {string} id @param {string} deliveryId */
  replayDelivery(id, deliveryId) {
    return this.api.call("POST", `webhooks/${part(id)}/deliveries/${part(deliveryId)}/replay`);
  }

  /** @param {string | null} cursor @param {string} role @returns {Promise<Page<Account>>} */
  users(cursor, role) {
    return this.get("admin/users", { limit: PAGE_ITEMS, cursor, role });
  }

  /** @param {{username: string, role: string, password?: string}} account @returns {Promise<Account>} */
  createUser(account) {
    return this.api.call("POST", "admin/users", { body: account });
  }

  /** @param {string} id @param {{role?: string, disabled?: boolean}} change @returns {Promise<Account>} */
  changeUser(id, change) {
    return this.api.call("PATCH", `admin/users/${part(id)}`, { body: change });
  }

  /** @param {string} id @param {string} password */
  resetPassword(id, password) {
    return this.api.call("POST", `admin/users/${part(id)}/password`, { body: { new_password: password } });
  }

  /** @param {string} id */
  deleteUser(id) {
    return this.api.call("DELETE", `admin/users/${part(id)}`);
  }

  /** @param {"users" | "keys"} kind @param {string} id @returns {Promise<Quota>} */
  quota(kind, id) {
    return this.get(`admin/${kind}/${part(id)}/quota`);
  }

  /** @param {"users" | "keys"} kind @param {string} id @param {Quota} quota @returns {Promise<Quota>} */
  setQuota(kind, id, quota) {
    return this.api.call("PUT", `admin/${kind}/${part(id)}/quota`, { body: quota });
  }

  /** @param {string} userId @returns {Promise<Retention>} */
  retention(userId) {
    return this.get(`admin/users/${part(userId)}/retention`);
  }

  /** @param {string} userId @param {number | null} days @returns {Promise<Retention>} */
  setRetention(userId, days) {
    return this.api.call("PUT", `admin/users/${part(userId)}/retention`, { body: { days } });
  }

  /** @param {string | null} cursor @param {string} userId @returns {Promise<Page<ApiKey>>} */
  keys(cursor, userId) {
    return this.get("admin/keys", { limit: PAGE_ITEMS, cursor, user_id: userId });
  }

  /** @param {string} id */
  revokeKey(id) {
    return this.api.call("DELETE", `admin/keys/${part(id)}`);
  }

  /**
   * @param {string | null} cursor
   * @param {{group_by: string, since: string, until: string}} wanted
   * @returns {Promise<Page<UsageItem> & {totals: UsageTotals}>}
   */
  usage(cursor, wanted) {
    return this.get("admin/usage", { limit: PAGE_ITEMS, cursor, ...wanted });
  }

  /** Where the browser gets the same as a file. @param {{group_by: string, since: string, until: string}} wanted */
  usageFile(wanted) {
    return `/api/v1/admin/usage${query({ ...wanted, format: "csv" })}`;
  }

  /** @param {string | null} cursor @param {{since: string, until: string}} days @returns {Promise<Page<FeedbackSums>>} */
  feedback(cursor, days) {
    return this.get("admin/feedback", { limit: PAGE_ITEMS, cursor, ...days });
  }

  /**
   * @param {string | null} cursor
   * @param {{action: string, actor_id: string, target_id: string}} filter
   * @returns {Promise<Page<AuditEntry>>}
   */
  audit(cursor, filter) {
    return this.get("admin/audit", { limit: PAGE_ITEMS, cursor, ...filter });
  }

  /** @returns {Promise<Server>} */
  server() {
    return this.get("admin/server");
  }

  /** @returns {Promise<Drain>} */
  drain() {
    return this.get("admin/drain");
  }

  /** @param {boolean} isDrained @returns {Promise<Drain>} */
  setDrain(isDrained) {
    return this.api.call(isDrained ? "POST" : "DELETE", "admin/drain");
  }
}
