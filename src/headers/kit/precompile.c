// A g++ plug-in for making precompiled headers, used with our own headers only and never with a candidate's source.
//
// g++ stores a precompiled header with its pending template instantiations still pending, so each compilation that uses
// it does them again: 0.10 of the 0.15 CPU-seconds that the standard library's headers cost, 8 of 10 with torch's. The
// pragma `kz instantiate` at the end of a header does them while it is being precompiled. What comes out is an ordinary
// precompiled header, read without this plug-in.
//
// Declares what it needs of g++ itself, because Debian's g++ comes without the plug-in headers. The broker compares a
// first compilation with and without, and goes without where this does not load.
int plugin_is_GPL_compatible = 1;

struct plugin_name_args {
  char* base_name;
};

enum { kPluginPragmas = 15 };  // PLUGIN_PRAGMAS of g++ 9 to 14

extern void _Z29instantiate_pending_templatesi(int);
extern void _Z17c_register_pragmaPKcS0_PFvP10cpp_readerE(const char*, const char*, void (*)(void*));
extern void register_callback(const char*, int, void (*)(void*, void*), void*);

static void instantiate(void* reader) {
  (void)reader;
  _Z29instantiate_pending_templatesi(0);
}

static void add_pragma(void* gcc, void* user) {
  (void)gcc, (void)user;
  _Z17c_register_pragmaPKcS0_PFvP10cpp_readerE("kz", "instantiate", instantiate);
}

int plugin_init(struct plugin_name_args* info, void* version) {
  (void)version;
  register_callback(info->base_name, kPluginPragmas, add_pragma, 0);
  return 0;
}
