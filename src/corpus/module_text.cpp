// The text of a module, in the form that Python's ast.unparse gives, so that the gate's canonical source of it is
// itself.
#include "base/text.h"
#include "corpus/chain.h"
#include "corpus/text_parts.h"

namespace kz::corpus {

std::string module_text(const Chain& chain) {
  std::string init, body;
  int modules = 0;
  for (const Operator& op : chain.operators) {
    const Spelling& spelling = op.family->spellings[op.spelling];
    const std::string args = fill(spelling.args, op);
    if (spelling.form.starts_with("nn.")) {
      const std::string name = "self.m" + std::to_string(++modules);
      init += "        " + name + " = " + spelling.form + "(" + args + ")\n";
      body += "        x = " + name + "(x)\n";
    } else {
      body += "        x = " + spelling.form + "(" + args + ")\n";
    }
  }
  std::string signature = "x", inputs = std::string(chain.uniform_input ? "torch.rand(" : "torch.randn(") +
                                        std::to_string(chain.rows) + ", " + std::to_string(chain.width) + ")";
  for (const Operator& op : chain.operators) {
    if (op.input.empty()) continue;
    const std::string in = std::to_string(op.width_in), out = std::to_string(op.width_out);
    std::string shape = std::to_string(chain.rows) + ", " + in;
    if (op.family->kind == Kind::kVector) shape = in;
    if (op.family->kind == Kind::kWeight) shape = op.family->name == "linear" ? out + ", " + in : in + ", " + out;
    signature += ", " + op.input;
    inputs += ", torch.randn(" + shape + ")";
  }
  return kModuleHead + init + kModuleForward + signature + "):\n" + body + kModuleReturn + inputs + kModuleTail;
}

}  // namespace kz::corpus
