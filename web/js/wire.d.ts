// What crosses the wire, as the browser sees it: JSON of `/api/v1` and frames of `/ws`. Only types; never loaded by a page.

import type { Saying } from "./texts.js";

export type MessageStatus =
  | "queued"
  | "in_progress"
  | "completed"
  | "incomplete"
  | "cancelled"
  | "failed"
  | "interrupted";

export interface Usage {
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
  queue_ms: number | null;
  prefill_ms: number | null;
  ttft_ms: number | null;
  decode_ms: number | null;
  /** Of the cached tokens, how many lay in memory (device, host), on disk, and in a persona's prefix. */
  cached_from?: { device: number; host: number; disk: number; prefix: number };
  dropped_turns?: number;
}

export interface Failure {
  code: string;
  message: string;
}

export interface User {
  id: string;
  username: string;
  role: string;
  /** What the role may do to others, as `administer`, `answer_people`. */
  rights?: string[];
}

/** How people come in: `signup` is "open" or "closed"; `oidc` is what the provider behind `/oidc/login` is called. */
export interface WaysIn {
  signup: string;
  oidc: string | null;
}

/** An agent, as others see one. */
export interface Person {
  id: string | null;
  name: string;
}

/** Who answers: the model; nobody, while a person is waited for; a person; nobody, until somebody writes again. */
export type ConversationState = "bot" | "queued" | "human" | "resolved";

export interface Conversation {
  id: string;
  title: string;
  version: number;
  created_at: string;
  updated_at: string;
  state: ConversationState;
  state_since?: string | null;
  agent?: Person | null;
  archived: boolean;
  tags: string[];
  persona: string | null;
  temporary: boolean;
  expires_at: string | null;
  /** In answers to a search: where the words were found; in the title where there is no message. */
  hit?: { message_id: string | null; role: string | null; snippet: { text: string; marked: boolean }[] };
}

/** What a conversation begins with. */
export interface Beginning {
  persona: string | null;
  temporary: boolean;
}

export interface Persona {
  name: string;
  system_prompt: string;
  prefix: { state: "building" | "ready" | "cold"; tokens: number; pages: number; source: string | null };
}

export interface WireMessage {
  id: string;
  parent_id: string | null;
  role: "user" | "assistant";
  content: string;
  status: MessageStatus;
  usage: Usage | null;
  created_at: string;
  children: string[];
  response_id: string | null;
  last_seq: number;
  error?: Failure | null;
  /** The agent who wrote it in the model's place. */
  author?: Person | null;
  /** What the person who asks thinks of it. */
  feedback?: Rated | null;
}

/** 1 or -1 of thumbs, 1 to 5 of stars. */
export interface Rated {
  rating: number;
  scale: "thumbs" | "stars";
  comment?: string | null;
}

export interface WireResponse {
  id: string;
  conversation_id: string;
  parent_id: string;
  message_id: string;
  status: MessageStatus;
  usage: Usage | null;
  error?: Failure | null;
}

export interface Listing<Item> {
  items: Item[];
  next_cursor: string | null;
}

export interface MessageListing extends Listing<WireMessage> {
  roots: string[];
}

export interface Accepted {
  message: WireMessage;
  response: WireResponse | null;
}

export interface Frame {
  type: string;
  reply_to?: string | number;
  conversation_id?: string;
  response_id?: string;
  seq?: number;
  data: Record<string, any>;
}

export interface ResumePoint {
  response_id: string;
  last_seq: number;
}

/** How far the reading of a prompt has come; afterwards, in phase `decode`, the answer is written. */
export interface Progress {
  phase: string;
  done: number;
  total: number;
}

/** A message as the page holds it: what the wire says, and what is only known while an answer is being made. */
export interface Message extends WireMessage {
  position?: number | null;
  progress?: Progress | null;
}

/** A message of the user that the server has not accepted yet. It lives in local storage until it has. */
export interface Unsent {
  client_message_id: string;
  /** null: its conversation has yet to be made, under the idempotency key `thread_id`. */
  conversation_id: string | null;
  thread_id: string;
  /** What its conversation begins with, where that has yet to be made. */
  beginning?: Beginning;
  /** undefined: after the newest message; null: a new beginning (an edit of a first message). */
  parent_id?: string | null;
  content: string;
  created_at: number;
  /** Why the server refused it; null while it waits to be sent. */
  refused: Saying | null;
  /** Why the last try to send it did not succeed; it goes on waiting. */
  delayed?: Saying;
}

/** The live side of a conversation, under its id: where what the engine has computed for it lies. */
export interface LiveSession {
  id: string;
  state: "active" | "device" | "host" | "disk";
  turns: number;
  tokens: number;
  pages: { device: number; host: number; disk: number };
  cached_tokens: number;
  ttft_ms: number | null;
  idle_s: number;
  seconds_to_timeout: number | null;
}

export interface SignInPlace {
  id: string;
  label: string;
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
  is_current: boolean;
}

export interface ApiKey {
  id: string;
  name: string;
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
}

export interface UsageTotals {
  answers: number;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
}

export interface UsageDays extends Listing<{ day: string; usage: UsageTotals }> {
  totals: UsageTotals;
}

/** A limit that holds, and how much of it is used; `per` and `resets_at` are null where it is about what there is at once. */
export interface Limit {
  subject: "user" | "key";
  unit: "requests" | "tokens" | "answers" | "sockets";
  per: "minute" | "day" | null;
  limit: number;
  used: number;
  resets_at: string | null;
}
