/**
 * Reads an OpenAPI 3.1 or AsyncAPI 3.0 document: references, the shape of a schema in words, an example of it, and what there is
 * to show. Pure; called by the views.
 *
 * @typedef {Record<string, any>} Json
 * @typedef {{name: string, schema: Json, isRequired: boolean}} Field
 * @typedef {{id: string, method: string, path: string, group: string, details: Json}} RestOperation
 * @typedef {{id: string, name: string, isFromClient: boolean, message: Json, answers: string[]}} Frame
 */

const METHODS = ["get", "post", "put", "patch", "delete"];
const DEEPEST_EXAMPLE = 6;

/**
 * What a reference leads to, or the thing itself.
 *
 * @param {Json} document
 * @param {Json} thing
 * @returns {Json}
 */
export function resolved(document, thing) {
  let here = thing;
  while (typeof here?.$ref === "string") {
    const path = here.$ref.replace(/^#\//, "").split("/");
    here = path.reduce((/** @type {any} */ place, part) => place?.[part.replaceAll("~1", "/").replaceAll("~0", "~")], document);
  }
  return here ?? {};
}

/** The last part of a reference: the name of what it leads to. @param {Json} thing */
export function nameOf(thing) {
  return typeof thing?.$ref === "string" ? String(thing.$ref.split("/").at(-1)) : "";
}

/** Of `anyOf` and `oneOf` the choices that are not null. @param {Json} schema */
function choices(schema) {
  return /** @type {Json[]} */ (schema.anyOf ?? schema.oneOf ?? []).filter((choice) => choice.type !== "null");
}

/** @param {Json} schema */
function isNullable(schema) {
  const types = [schema.type ?? []].flat();
  return types.includes("null") || (schema.anyOf ?? schema.oneOf ?? []).some((/** @type {Json} */ choice) => choice.type === "null");
}

/**
 * The type in words, such as "list of MessageBody, or null".
 *
 * @param {Json} document
 * @param {Json} schema
 * @returns {string}
 */
export function typeOf(document, schema) {
  const target = resolved(document, schema);
  const also = isNullable(target) ? ", or null" : "";
  const among = choices(target);
  if (among.length > 0) return [...new Set(among.map((choice) => typeOf(document, choice)))].join(" or ") + also;
  if (target.allOf) return target.allOf.map((/** @type {Json} */ part) => typeOf(document, part)).join(" and ");
  if ("const" in target) return JSON.stringify(target.const);
  if (target.enum?.length === 1) return JSON.stringify(target.enum[0]);
  const types = [target.type ?? []].flat().filter((type) => type !== "null");
  if (types.includes("array")) return `list of ${typeOf(document, target.items ?? {})}${also}`;
  if (target.enum && types.length === 0) return `text${also}`;
  if (types.includes("object") || target.properties) return (nameOf(schema) || target.title || "object") + also;
  return (types.map((type) => (type === "string" ? "text" : type)).join(" or ") || "anything") + also;
}

/**
 * What else holds for a value, each as a few words.
 *
 * @param {Json} document
 * @param {Json} schema
 * @returns {string[]}
 */
export function limitsOf(document, schema) {
  const target = resolved(document, schema);
  const found = choices(target).flatMap((choice) => limitsOf(document, choice));
  const values = target.enum?.filter((/** @type {unknown} */ value) => value !== null);
  if (values?.length > 1) found.push(`one of ${values.map((/** @type {unknown} */ value) => JSON.stringify(value)).join(", ")}`);
  if (target.format) found.push(target.format);
  for (const [key, words] of Object.entries(LIMITS)) if (key in target) found.push(target[key] === 1 ? words.one : words.many.replace("N", target[key]));
  if (target.items) found.push(...limitsOf(document, target.items).map((limit) => `each ${limit}`));
  if ("default" in target && target.default !== null) found.push(`default ${JSON.stringify(target.default)}`);
  return [...new Set(found)];
}

/** @type {Record<string, {many: string, one: string}>} */
const LIMITS = Object.fromEntries(
  [
    ["minimum", "at least N"],
    ["exclusiveMinimum", "more than N"],
    ["maximum", "at most N"],
    ["exclusiveMaximum", "less than N"],
    ["minLength", "at least N characters", "not empty"],
    ["maxLength", "at most N characters", "at most 1 character"],
    ["minItems", "at least N items", "not empty"],
    ["maxItems", "at most N items", "at most 1 item"],
    ["pattern", "matches N"],
  ].map(([key, many = "", one = many.replace("N", "1")]) => [key, { many, one }]),
);

/**
 * The fields of an object; of a list, those of its items; of a choice, those of every object in it.
 *
 * @param {Json} document
 * @param {Json} schema
 * @returns {Field[]}
 */
export function fieldsOf(document, schema) {
  const target = resolved(document, schema);
  const among = [...choices(target), ...(target.allOf ?? [])];
  if (among.length > 0) return among.flatMap((choice) => fieldsOf(document, choice));
  if (target.items) return fieldsOf(document, target.items);
  const required = new Set(target.required ?? []);
  return Object.entries(target.properties ?? {}).map(([name, field]) => ({ name, schema: field, isRequired: required.has(name) }));
}

/**
 * A value that fits: what is required, with placeholders.
 *
 * @param {Json} document
 * @param {Json} schema
 * @param {number} [depth]
 * @returns {any}
 */
export function exampleOf(document, schema, depth = 0) {
  const target = resolved(document, schema);
  if (depth > DEEPEST_EXAMPLE || target.default !== undefined) return target.default ?? null;
  if ("const" in target) return target.const;
  if (target.enum) return target.enum[0];
  const [choice] = choices(target);
  if (choice) return exampleOf(document, choice, depth + 1);
  const types = [target.type ?? (target.properties ? "object" : [])].flat();
  if (types.includes("object")) {
    const needed = fieldsOf(document, target).filter((field) => field.isRequired);
    return Object.fromEntries(needed.map((field) => [field.name, exampleOf(document, field.schema, depth + 1)]));
  }
  if (types.includes("array")) return [];
  if (types.includes("integer") || types.includes("number")) return target.minimum ?? 0;
  if (types.includes("boolean")) return false;
  return types.includes("string") ? "" : null;
}

/**
 * The operations of an OpenAPI document, in groups by the first part of their path.
 *
 * @param {Json} document
 * @returns {RestOperation[]}
 */
export function restOperations(document) {
  const found = Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
    METHODS.filter((method) => item[method]).map((method) => ({
      id: `${method}${path}`.replaceAll(/[^\w]+/g, "-").replace(/-$/, ""),
      method,
      path,
      group: path.replace(/^\/api\/v1/, "").split("/")[1] || "start page",
      details: item[method],
    })),
  );
  return found.sort((one, other) => one.group.localeCompare(other.group) || one.path.localeCompare(other.path));
}

/**
 * The frames of an AsyncAPI document: what the client sends, with what that is answered with, then what the server sends.
 *
 * @param {Json} document
 * @returns {Frame[]}
 */
export function frames(document) {
  const operations = /** @type {Json[]} */ (Object.values(document.operations ?? {}));
  const found = operations.flatMap((operation) =>
    operation.messages.map((/** @type {Json} */ reference) => {
      const message = resolved(document, reference);
      const isFromClient = operation.action === "receive";
      const answers = (operation.reply?.messages ?? []).map((/** @type {Json} */ answer) => resolved(document, answer).name);
      return { id: `${isFromClient ? "client" : "server"}-${nameOf(reference)}`, name: message.name, isFromClient, message, answers };
    }),
  );
  return found.sort((one, other) => Number(other.isFromClient) - Number(one.isFromClient));
}

/**
 * Whether every word of a filter is somewhere in a text.
 *
 * @param {string} filter
 * @param {string} text
 */
export function matches(filter, text) {
  const searched = text.toLowerCase();
  return filter.toLowerCase().split(/\s+/).every((word) => searched.includes(word));
}
