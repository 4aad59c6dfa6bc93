// What the administrators' routes answer, as the dashboard sees it. Only types; never loaded by a page.

export interface Quantiles {
  p50: number | null;
  p99: number | null;
}

export interface PageCount {
  tier: string;
  state: string;
  namespace: string | null;
  pages: number;
}

export interface Stats {
  taken_at: string;
  uptime_s: number;
  state: "loading" | "ready" | "failed" | "stopped";
  is_drained: boolean;
  model: string | null;
  queue: { waiting: number; waiting_tokens: number; by_priority: Record<string, number> };
  running: number;
  tokens_per_s: { prefill: number; decode: number };
  ttft_ms: Quantiles;
  inter_token_ms: Quantiles;
  event_loop_lag_ms: Quantiles;
  hits: { rate: number | null; queried_tokens: number; hit_tokens: Record<string, number> };
  pages: PageCount[];
  page_map: string;
  tiers: Record<string, { used_bytes: number; limit_bytes: number }>;
  sessions: Record<string, number>;
  prefixes: Record<string, number>;
  sockets: number;
  event_streams: number;
  preemptions: number;
}

export interface LiveSession {
  id: string;
  user: { id: string; username: string | null; part: string | null };
  conversation_id: string | null;
  /** Which of several servers has it. */
  server: string;
  name: string;
  state: "active" | "device" | "host" | "disk";
  priority: string;
  turns: number;
  tokens: number;
  pages: { device: number; host: number; disk: number };
  cached_tokens: number;
  ttft_ms: number | null;
  idle_s: number;
  seconds_to_timeout: number | null;
  last_used_at: string;
}

export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

export interface Persona {
  name: string;
  system_prompt: string;
  params: Record<string, unknown>;
  handoff_keywords: string[] | null;
  prefix: { state: "building" | "ready" | "cold"; tokens: number; pages: number; source: string | null };
  created_at: string;
  updated_at: string;
}

export interface PersonaVersion {
  id: string;
  system_prompt: string;
  params: Record<string, unknown>;
  is_current: boolean;
  conversations: number;
  created_at: string | null;
}

export interface Widget {
  id: string;
  name: string;
  allowed_origins: string[];
  persona: string | null;
  anonymous: boolean;
  title: string;
  greeting: string;
  colour: string;
  languages: string[];
  created_at: string;
  updated_at: string;
}

export interface Webhook {
  id: string;
  url: string;
  events: string[];
  description: string;
  enabled: boolean;
  disabled_reason: string | null;
  failing_since: string | null;
  previous_secret_until: string | null;
  created_at: string;
  updated_at: string;
}

export interface Delivery {
  id: string;
  event_id: string;
  event_type: string;
  conversation_id: string | null;
  status: "pending" | "delivered" | "dead";
  attempts: number;
  next_attempt_at: string | null;
  last_status_code: number | null;
  last_error: string | null;
  delivered_at: string | null;
  created_at: string;
}

export interface Account {
  id: string;
  username: string;
  role: "user" | "agent" | "admin" | "visitor";
  has_password: boolean;
  created_at: string;
  disabled_at: string | null;
}

export interface ApiKey {
  id: string;
  name: string;
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
  user_id: string;
  username: string;
  revoked_at: string | null;
}

export type QuotaName =
  | "requests_per_minute"
  | "tokens_per_minute"
  | "requests_per_day"
  | "tokens_per_day"
  | "concurrent_answers"
  | "sockets";
export type Quota = Record<QuotaName, number | null>;

export interface Retention {
  days: number;
  source: "server" | "user";
}

export interface UsageTotals {
  answers: number;
  completed: number;
  incomplete: number;
  cancelled: number;
  failed: number;
  interrupted: number;
  input_tokens: number;
  cached_tokens: number;
  output_tokens: number;
}

export interface UsageItem {
  day?: string;
  user_id?: string;
  username?: string;
  key_id?: string;
  persona?: string;
  model?: string;
  purpose?: string;
  usage: UsageTotals;
}

export interface FeedbackSums {
  day: string;
  persona: string | null;
  thumbs_up: number;
  thumbs_down: number;
  stars: number;
  stars_average: number | null;
  satisfied: number;
}

export interface AuditEntry {
  id: string;
  created_at: string;
  actor: { id: string | null; username: string; key_id: string | null };
  action: string;
  target_id: string | null;
  details: Record<string, unknown>;
}

export interface Drain {
  is_drained: boolean;
  is_ending: boolean;
  since: string | null;
  by: string | null;
  answers: number;
}

export interface Server {
  version: string;
  python: string;
  platform: string;
  replica_id: string;
  started_at: string;
  state: string;
  failure: string | null;
  model: null | {
    name: string;
    architecture: string;
    parameters: number;
    context_tokens: number;
    vocabulary_size: number;
    weights: string;
    kernels: string;
    fingerprint: string;
  };
  threads: number;
  reuse: boolean;
  database: string;
  redis: boolean;
  settings: { name: string; value: string; origin: string; description: string }[];
}
