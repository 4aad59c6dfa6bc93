/** The words of the dashboard's section about what people think of answers. */

import * as problems from "./problems.js";

export const en = {
  ...problems.en,
  feedback: "Feedback",
  hint: "How satisfied people are with answers, by day and persona. What they wrote is not shown here.",
  none: "Nobody has rated an answer in these days.",
  since: "From",
  until: "To",
  "column.day": "Day",
  "column.persona": "Persona",
  "column.up": "Thumbs up",
  "column.down": "Thumbs down",
  "column.stars": "Ratings in stars",
  "column.average": "Average of stars",
  "column.satisfied": "Satisfied",
  noPersona: "none",
};

/** @type {Record<keyof typeof en, import("../texts.js").Text>} */
export const zh = {
  ...problems.zh,
  feedback: "反馈",
  hint: "人们对回答的满意程度，按日期和角色设定统计。此处不显示所写的内容。",
  none: "这段时间内没有人评价回答。",
  since: "从",
  until: "到",
  "column.day": "日期",
  "column.persona": "角色设定",
  "column.up": "赞",
  "column.down": "踩",
  "column.stars": "星级评价数",
  "column.average": "平均星级",
  "column.satisfied": "满意率",
  noPersona: "无",
};
