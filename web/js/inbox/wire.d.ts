// What crosses the wire between the inbox and the server. Only types; never loaded by a page.

import type { Listing, WireMessage } from "../wire.d.ts";

export interface Person {
  id: string | null;
  name: string;
}

export type ServiceState = "bot" | "queued" | "human" | "resolved";

export interface ServedConversation {
  id: string;
  title: string;
  state: ServiceState;
  state_since: string | null;
  agent: Person | null;
  persona: string | null;
  metadata?: { visitor?: { name?: string; email?: string; subject?: string }; widget?: { id?: string; name?: string } };
  created_at: string;
  updated_at: string;
}

export interface InboxItem {
  conversation: ServedConversation;
  user: { id: string; name: string };
  cause: string | null;
  reason: string | null;
}

export type SaidMessage = WireMessage & { author?: Person | null };

export interface Canned {
  id: string;
  title: string;
  content: string;
}

export type InboxList = Listing<InboxItem>;
