// What is shown of an OpenAPI or AsyncAPI document, and what a filled form is sent as.

import assert from "node:assert/strict";
import { test } from "node:test";
import { exampleOf, fieldsOf, frames, limitsOf, matches, resolved, restOperations, typeOf } from "../../web/js/schema/document.js";

const DOCUMENT = {
  paths: {
    "/api/v1/things/{id}": { get: { summary: "One" }, delete: { summary: "Away" } },
    "/api/v1/things": { post: { summary: "New" } },
    "/healthz": { get: { summary: "Lives" } },
  },
  components: {
    schemas: {
      Thing: {
        type: "object",
        required: ["name", "kind", "inner"],
        properties: {
          name: { type: "string", minLength: 1, maxLength: 9 },
          kind: { enum: ["a", "b"] },
          inner: { $ref: "#/components/schemas/Inner" },
          size: { anyOf: [{ type: "integer", minimum: 3 }, { type: "null" }], default: null },
          tags: { type: "array", items: { type: "string", maxLength: 4 }, maxItems: 2 },
        },
      },
      Inner: { type: "object", properties: { again: { anyOf: [{ $ref: "#/components/schemas/Inner" }, { type: "null" }] } } },
    },
  },
};
const thing = { $ref: "#/components/schemas/Thing" };
const field = (name) => fieldsOf(DOCUMENT, thing).find((each) => each.name === name);

test("types are words", () => {
  assert.equal(typeOf(DOCUMENT, thing), "Thing");
  assert.equal(typeOf(DOCUMENT, { type: "array", items: thing }), "list of Thing");
  assert.equal(typeOf(DOCUMENT, field("size").schema), "integer, or null");
  assert.equal(typeOf(DOCUMENT, { type: ["string", "null"] }), "text, or null");
  assert.equal(typeOf(DOCUMENT, { const: "x" }), '"x"');
  assert.equal(typeOf(DOCUMENT, {}), "anything");
});

test("limits are words", () => {
  assert.deepEqual(limitsOf(DOCUMENT, field("name").schema), ["not empty", "at most 9 characters"]);
  assert.deepEqual(limitsOf(DOCUMENT, field("kind").schema), ['one of "a", "b"']);
  assert.deepEqual(limitsOf(DOCUMENT, field("size").schema), ["at least 3"]);
  assert.deepEqual(limitsOf(DOCUMENT, field("tags").schema), ["at most 2 items", "each at most 4 characters"]);
});

test("an example has what is required, and one that contains itself ends", () => {
  assert.deepEqual(exampleOf(DOCUMENT, thing), { name: "", kind: "a", inner: {} });
  const loop = { components: { schemas: { L: { type: "object", required: ["l"], properties: { l: { $ref: "#/components/schemas/L" } } } } } };
  assert.ok(JSON.stringify(exampleOf(loop, { $ref: "#/components/schemas/L" })).length < 100);
});

test("operations are in groups, and every one has an address of its own", () => {
  const found = restOperations(DOCUMENT);
  assert.deepEqual(found.map(({ group, method }) => [group, method]), [["healthz", "get"], ["things", "post"], ["things", "get"], ["things", "delete"]]);
  assert.equal(new Set(found.map(({ id }) => id)).size, found.length);
});

test("frames of the client come first, with what they are answered with", () => {
  const socket = {
    operations: {
      pong: { action: "send", messages: [{ $ref: "#/messages/pong" }] },
      ping: { action: "receive", messages: [{ $ref: "#/messages/ping" }], reply: { messages: [{ $ref: "#/messages/pong" }] } },
    },
    messages: { ping: { name: "ping" }, pong: { name: "pong" } },
  };
  assert.deepEqual(frames(socket).map(({ id, name, answers }) => [id, name, answers]), [["client-ping", "ping", ["pong"]], ["server-pong", "pong", []]]);
});

test("references with escapes are followed, and those to nothing are nothing", () => {
  assert.deepEqual(resolved({ "a/b": { "c~d": 1 } }, { $ref: "#/a~1b/c~0d" }), 1);
  assert.deepEqual(resolved({}, { $ref: "#/not/there" }), {});
});

test("a filter asks for every word", () => {
  assert.ok(matches("post Thing", "POST /things"));
  assert.ok(!matches("post other", "POST /things"));
  assert.ok(matches("", "anything"));
});
