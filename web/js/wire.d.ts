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
}

export interface Failure {
  code: string;
  message: string;
}

export interface User {
  id: string;
  username: string;
  role: string;
}

/** How people come in: `signup` is "open" or "closed"; `oidc` is what the provider behind `/oidc/login` is called. */
export interface WaysIn {
  signup: string;
  oidc: string | null;
}

export interface Conversation {
  id: string;
  title: string;
  version: number;
  created_at: string;
  updated_at: string;
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
  response: WireResponse;
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
  /** undefined: after the newest message; null: a new beginning (an edit of a first message). */
  parent_id?: string | null;
  content: string;
  created_at: number;
  /** Why the server refused it; null while it waits to be sent. */
  refused: Saying | null;
  /** Why the last try to send it did not succeed; it goes on waiting. */
  delayed?: Saying;
}
