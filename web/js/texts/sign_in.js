/** The words of the page before one is signed in. */

import * as problems from "./problems.js";

export const en = {
  ...problems.en,
  title: "Sign in to Kvasir",
  titleNew: "Create an account",
  name: "Name",
  password: "Password",
  signIn: "Sign in",
  createAccount: "Create account",
  oneMoment: "One moment",
  signInWith: "Sign in with {provider}",
  haveAccount: "I have an account",
  help: "No password? The server prints a sign-in link each time it starts.",
  ended: "Your sign-in has ended. Sign in again to go on.",
  accountDeleted: "Your account is deleted, with everything in it.",
  linkExpired:
    "This sign-in link has been used or is too old. Each link works once. Restart the server for a new one, or sign in with your password.",
  oidcFailed: "Signing in over there did not work. Try again, or ask an administrator: the server's log has the reason.",
  wrong: "The name or the password is not right.",
  tooManyTries: "Too many tries. Wait {wait_s} seconds, then try again.",
  unreachableTitle: "The server cannot be reached",
  unreachableText: "Trying again by itself. Meanwhile, check that Kvasir is running and that this device is connected.",
  tryNow: "Try now",
  loading: "Loading",
};

/** @type {Record<keyof typeof en, import("../texts.js").Text>} */
export const zh = {
  ...problems.zh,
  title: "登录 Kvasir",
  titleNew: "创建账号",
  name: "用户名",
  password: "密码",
  signIn: "登录",
  createAccount: "创建账号",
  oneMoment: "请稍候",
  signInWith: "使用 {provider} 登录",
  haveAccount: "已有账号",
  help: "没有密码？服务器每次启动时都会输出一个登录链接。",
  ended: "登录已失效，请重新登录。",
  accountDeleted: "账号及其所有内容已删除。",
  linkExpired: "该登录链接已被使用或已过期，每个链接只能使用一次。请重启服务器获取新链接，或使用密码登录。",
  oidcFailed: "通过外部服务登录失败。请重试，或请管理员在服务器日志中查看原因。",
  wrong: "用户名或密码不正确。",
  tooManyTries: "尝试次数过多，请等待 {wait_s} 秒后重试。",
  unreachableTitle: "无法连接服务器",
  unreachableText: "正在自动重试。请确认 Kvasir 正在运行，且此设备已联网。",
  tryNow: "立即重试",
  loading: "正在加载",
};
