// What the widget gets from the server beside the chat's own wire types. Only types; never loaded by a page.

import type { Conversation, WireMessage } from "../js/wire.d.ts";

export interface Look {
  id: string;
  title: string;
  greeting: string;
  colour: string;
  languages: ("en" | "zh")[];
  anonymous: boolean;
}

export interface SignIn {
  token: string;
  expires_at: string;
  visitor: { id: string; name: string | null; email: string | null };
  visitor_key: string | null;
}

export interface Person {
  id: string | null;
  name: string;
}

export type ServiceState = "bot" | "queued" | "human" | "resolved";

export type VisitorConversation = Conversation & { state: ServiceState; agent?: Person | null };

export type SaidMessage = WireMessage & { author?: Person | null };

/** A message that the server has not accepted yet. */
export interface Waiting {
  client_message_id: string;
  content: string;
  refused: string | null;
}
