// node compile.mjs FOLDER PLACE VERSION: writes the bytecode of all modules below the folder.
// Tracebacks show their paths below PLACE. Ends with 1 if a module cannot be compiled, after it has
// said which and why.
import { loadPyodide } from "pyodide";

const [folder, place, version] = process.argv.slice(2);
// Archives lose the times of files, so Python must not compare them.
const COMPILE = `
import compileall, py_compile, sys
if "{}.{}".format(*sys.version_info) != version:
    sys.exit(f"this is Python {sys.version}, not {version}")
compileall.compile_dir(
    "/folder",
    quiet=1,
    stripdir="/folder",
    prependdir=place,
    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
)
`;
const python = await loadPyodide({ env: { PYTHONHASHSEED: "0" } });
python.mountNodeFS("/folder", folder);
const given = python.toPy({ place, version });
process.exit(python.runPython(COMPILE, { globals: given }) ? 0 : 1);
