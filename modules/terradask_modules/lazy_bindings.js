// Node runs this before jsii: see bindings.py.
"use strict";

const { readFileSync } = require("node:fs");

const INDEX = /[\\/]@cdktf[\\/]provider-aws[\\/]lib[\\/]index\.js$/;
const EXPORT = /^exports\.(\w+) = (require\("[^"\n]+"\));$/gm;
const GETTER = 'Object.defineProperty(exports, "$1", { enumerable: true, get: () => $2 });';

const load = require.extensions[".js"];

require.extensions[".js"] = (module, filename) => {
  if (!INDEX.test(filename)) return load(module, filename);
  require.extensions[".js"] = load;
  module._compile(readFileSync(filename, "utf8").replace(EXPORT, GETTER), filename);
};
