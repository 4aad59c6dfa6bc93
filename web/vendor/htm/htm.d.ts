// Written for Kvasir: the type of htm as web/js uses it, bound to Preact's `h`.
declare const htm: {
  bind<Result>(
    h: (type: any, props: Record<string, any> | null, ...children: any[]) => Result,
  ): (strings: TemplateStringsArray, ...values: any[]) => Result;
};
export default htm;
