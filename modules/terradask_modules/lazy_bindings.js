// Node runs this before jsii: see bindings.py.
"use strict";

const { readFileSync } = require("node:fs");

const INDEX = /[\\/]provider-aws[\\/]lib[\\/]index\.js$/;
const EXPORT = /^exports\.(\w+) = ((?:__importStar\()?require\("[^"\n]+"\)\)?);$/gm;
const GETTER = 'Object.defineProperty(exports, "$1", { enumerable: true, get: () => $2 });';

const load = require.extensions[".js"];

require.extensions[".js"] = (module, filename) => {
  if (!INDEX.test(filename)) return load(module, filename);
  require.extensions[".js"] = load;
  module._compile(readFileSync(filename, "utf8").replace(EXPORT, GETTER), filename);
};

// A terminal's Ctrl-C reaches all of its processes, and the rollback that follows it needs this
// one: it ends with its standard input instead. jsii's own handlers would end it.
const { on } = process;
const OUTLIVED = ["SIGINT", "SIGTERM", "SIGHUP"];
for (const signal of OUTLIVED) process.on(signal, () => {});
process.on = (event, ...rest) =>
  OUTLIVED.includes(event) ? process : on.call(process, event, ...rest);

// jsii writes an index of a package's types in a worker, and reads few of them once it is there. A
// process that ends before its worker, as synthesis does, would leave every next one without it.
const threads = require("node:worker_threads");
const { exit } = process;
const working = new Set();
threads.Worker = class extends threads.Worker {
  constructor(...given) {
    super(...given);
    working.add(this);
    this.once("exit", () => working.delete(this));
  }
};
process.exit = (code) => {
  if (working.size === 0) exit.call(process, code);
  for (const worker of working)
    worker.once("exit", () => working.size === 0 && exit.call(process, code));
};
