// What the official JavaScript client gets from a server, as one line of JSON. Run by test_openai_clients.py.
import OpenAI from "openai";

const { BASE_URL, API_KEY, MODEL } = process.env;
const client = new OpenAI({ baseURL: BASE_URL, apiKey: API_KEY, maxRetries: 0 });
const asked = {
  model: MODEL,
  messages: [{ role: "user", content: "Name three fruits that are red, in one line." }],
  max_tokens: 8,
  temperature: 0,
};

const models = [];
for await (const model of client.models.list()) models.push(model.id);

const whole = await client.chat.completions.create(asked);
let streamed = "";
let cached = 0;
const stream = await client.chat.completions.create({ ...asked, stream: true, stream_options: { include_usage: true } });
for await (const chunk of stream) {
  streamed += chunk.choices[0]?.delta.content ?? "";
  cached = chunk.usage?.prompt_tokens_details.cached_tokens ?? cached;
}

let refused = null;
try {
  await client.chat.completions.create({ ...asked, n: 2 });
} catch (error) {
  if (!(error instanceof OpenAI.BadRequestError)) throw error;
  refused = { status: error.status, code: error.code, param: error.param };
}

const response = { model: MODEL, input: "Say hello.", max_output_tokens: 8, temperature: 0 };
let events = "";
for await (const event of await client.responses.create({ ...response, stream: true })) {
  if (event.type === "response.output_text.delta") events += event.delta;
}
const made = await client.responses.create(response);
const kept = await client.responses.retrieve(made.id);

console.log(
  JSON.stringify({
    models,
    whole: whole.choices[0].message.content,
    streamed,
    cached,
    refused,
    response: made.output_text,
    events,
    kept: kept.output_text ?? kept.output[0].content[0].text,
  }),
);
