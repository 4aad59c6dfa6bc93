/**
 * What went wrong, by the code of the server's refusal, and what to do about it. A code that is not here is told in the server's
 * own words. Areas put these into their dictionary: what they show may always fail.
 */

export const en = {
  "problem.unreachable": "The server cannot be reached. Check that this device is connected, then try again.",
  "problem.forbidden": "Your account may not do this. An administrator can change that.",
  "problem.not_found": "This does not exist any more. Reload the page to see what there is.",
  "problem.precondition_failed": "Somebody has changed this meanwhile. Look at it again, then repeat your change.",
  "problem.payload_too_large": "This is too large to send. {detail}",
  "problem.quota_exceeded": "You have used up your quota. {detail} Settings shows when it begins anew.",
  "problem.too_many_requests": "Too many requests at once. Wait {wait_s} seconds, then try again.",
  "problem.too_many_answers": "Too many of your answers are being made at once. Stop one, or wait for one to end.",
  "problem.queue_full": "The server is busy. Wait {wait_s} seconds, then try again.",
  "problem.queue_tokens_full": "The server is busy. Wait {wait_s} seconds, then try again.",
  "problem.engine_not_ready": "The model is still loading. This is sent as soon as it is ready.",
  "problem.draining": "The server is restarting. This is tried again by itself.",
  "problem.database_unavailable": "The server cannot reach its database. Try again in a moment.",
  "problem.internal_error": "Something went wrong on the server. Try again; if it stays so, an administrator finds the reason in its log.",
  "problem.content_too_large": "This message is too long. {detail}",
  "problem.context_length_exceeded": "The conversation is longer than the model can read. Begin a new one. {detail}",
  "problem.unknown_persona": "This persona does not exist any more. Choose another one.",
  "problem.import_invalid": "This file is not an exported conversation. {detail}",
  "problem.wrong_password": "The current password is not right.",
  "problem.last_administrator": "This is the only administrator who can act. Make somebody else one first.",
  "problem.fixed_role": "The account admin stays, with its role: every start prints a sign-in link for it.",
  "problem.too_many_keys": "There are too many keys already. Revoke one that is not used any more.",
  "problem.session_active": "This conversation is being answered right now. Try again when the answer has ended.",
};

/** @type {Record<keyof typeof en, import("../texts.js").Text>} */
export const zh = {
  "problem.unreachable": "无法连接服务器。请检查设备的网络连接，然后重试。",
  "problem.forbidden": "当前账号没有此权限，请联系管理员。",
  "problem.not_found": "该内容已不存在。请刷新页面查看最新状态。",
  "problem.precondition_failed": "该内容刚被他人修改过。请查看后再次修改。",
  "problem.payload_too_large": "内容过大，无法发送。{detail}",
  "problem.quota_exceeded": "配额已用完，可在设置中查看何时恢复。{detail}",
  "problem.too_many_requests": "请求过于频繁，请等待 {wait_s} 秒后重试。",
  "problem.too_many_answers": "同时生成的回答过多。请停止其中一个，或等待完成。",
  "problem.queue_full": "服务器繁忙，请等待 {wait_s} 秒后重试。",
  "problem.queue_tokens_full": "服务器繁忙，请等待 {wait_s} 秒后重试。",
  "problem.engine_not_ready": "模型仍在加载，就绪后会自动发送。",
  "problem.draining": "服务器正在重启，稍后会自动重试。",
  "problem.database_unavailable": "服务器无法访问数据库，请稍后重试。",
  "problem.internal_error": "服务器出错，请重试。若仍然失败，管理员可在日志中查看原因。",
  "problem.content_too_large": "消息过长。{detail}",
  "problem.context_length_exceeded": "对话长度超出模型的上限，请开始新对话。{detail}",
  "problem.unknown_persona": "该角色已不存在，请选择其他角色。",
  "problem.import_invalid": "该文件不是导出的对话。{detail}",
  "problem.wrong_password": "当前密码不正确。",
  "problem.last_administrator": "这是唯一可操作的管理员，请先任命其他管理员。",
  "problem.fixed_role": "账号 admin 不可删除，角色也不可更改：每次启动都会为它打印登录链接。",
  "problem.too_many_keys": "密钥数量已达上限，请先撤销不再使用的密钥。",
  "problem.session_active": "该对话正在生成回答，请在完成后重试。",
};
