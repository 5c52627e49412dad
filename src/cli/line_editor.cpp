#include "cli/line_editor.h"

#include "base/error.h"
#include "cli/interrupt.h"
#include "cli/terminal_guard.h"
#include "text/utf8.h"

#include <histedit.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace ingot::cli {

namespace {

constexpr int kHistory = 1000;  // lines
// A terminal that knows them puts kPasteBegin and kPasteEnd around what is pasted.
constexpr const char* kMarkPastes = "\x1b[?2004h";
constexpr const char* kLeavePastes = "\x1b[?2004l";
constexpr const wchar_t* kPasteBegin = L"\x1b[200~";
constexpr std::wstring_view kPasteEnd = L"\x1b[201~";

struct CloseStream {
  void operator()(std::FILE* stream) const { std::fclose(stream); }
};
struct EndEditor {
  void operator()(EditLine* editor) const { ::el_end(editor); }
};
struct EndHistory {
  void operator()(HistoryW* history) const { ::history_wend(history); }
};

wchar_t* prompt(EditLine*) {
  static wchar_t text[] = L"> ";
  return text;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\n") == std::string_view::npos;
}

}  // namespace

struct LineEditor::Impl {
  std::unique_ptr<std::FILE, CloseStream> screen;
  termios found{};                     // the terminal as the shell left it
  std::optional<TerminalGuard> guard;  // until the editor has put the terminal back
  std::unique_ptr<HistoryW, EndHistory> history;
  std::unique_ptr<EditLine, EndEditor> editor;  // uses the screen and the history
  winsize size{};
  std::string bytes;  // read; taken up to `begin`
  std::size_t begin = 0;

  static Impl& of(EditLine* editor) {
    void* self = nullptr;
    ::el_wget(editor, EL_CLIENTDATA, &self);
    return *static_cast<Impl*>(self);
  }

  // A resized terminal is noticed with the next key: a handler of SIGWINCH would change what the
  // editor may be in the middle of.
  void follow_size() {
    winsize now{};
    if (::ioctl(STDIN_FILENO, TIOCGWINSZ, &now) != 0) return;
    if (now.ws_col != size.ws_col || now.ws_row != size.ws_row) ::el_resize(editor.get());
    size = now;
  }

  // What can be read now, or what comes. False at the end, and on an error.
  bool read_some() {
    bytes.erase(0, begin);
    begin = 0;
    std::array<char, 4096> chunk;
    ssize_t n = 0;
    do n = ::read(STDIN_FILENO, chunk.data(), chunk.size());
    while (n < 0 && errno == EINTR && !interrupted());
    if (n > 0) bytes.append(chunk.data(), static_cast<std::size_t>(n));
    return n > 0;
  }

  // More bytes after those that are left. False at the end, and after Ctrl-C.
  bool read_more() {
    if (wait_for_input()) return read_some();
    bytes.clear();  // the terminal, too, forgets what was typed before Ctrl-C
    begin = 0;
    return false;
  }

  // The editor shows a search (Ctrl-R) behind the line: "bck:" or "fwd:", and what is searched.
  bool is_searching() const {
    const LineInfoW* line = ::el_wline(editor.get());
    const std::wstring_view all(line->buffer,
                                static_cast<std::size_t>(line->lastchar - line->buffer));
    const std::size_t end = all.rfind(L'\n');
    if (end == all.npos || line->cursor > line->buffer + end) return false;
    return all.substr(end + 1).starts_with(L"bck") || all.substr(end + 1).starts_with(L"fwd");
  }

  // 1: a character, 0: the end, -1: Ctrl-C.
  int next(wchar_t& out) {
    while (!interrupted()) {
      const char* const from = bytes.data() + begin;
      const char* const to = bytes.data() + bytes.size();
      if (from == to || is_incomplete_utf8(from, to)) {
        if (!read_more()) break;
        continue;
      }
      const Utf8Char c = decode_utf8(from, to);
      begin += static_cast<std::size_t>(c.size);
      out = static_cast<wchar_t>(c.code);
      return 1;
    }
    return interrupted() ? -1 : 0;
  }

  static int read_key(EditLine* editor, wchar_t* out) {
    Impl& self = of(editor);
    const int got = self.next(*out);
    // An Esc ends a search and is gone. One that begins the sequence of a key ends it, too, but is
    // read again, so that the key does what it does.
    if (got == 1 && *out == L'\x1b' && self.begin < self.bytes.size() && self.is_searching())
      --self.begin;
    self.follow_size();
    return got;
  }

  static unsigned char paste(EditLine* editor, wint_t) {
    Impl& self = of(editor);
    std::wstring text;
    while (!text.ends_with(kPasteEnd)) {
      wchar_t c = 0;
      if (self.next(c) != 1) return CC_NORM;  // the next key meets the same
      text += c == L'\r' ? L'\n' : c;
    }
    text.resize(text.size() - kPasteEnd.size());
    std::erase_if(text,
                  [](wchar_t c) { return (c < L' ' && c != L'\n' && c != L'\t') || c == 0x7f; });
    text.resize(text.find_last_not_of(L'\n') + 1);
    if (!text.empty() && ::el_winsertstr(editor, text.c_str()) != 0) return CC_ERROR;
    return CC_REFRESH;
  }

  // Ctrl-Z as a key: the terminal is put in order first.
  static unsigned char suspend(EditLine* editor, wint_t) {
    Impl& self = of(editor);
    ::el_wset(editor, EL_PREP_TERM, 0);
    self.mark_pastes(false);
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &self.found);
    self.guard.reset();
    ::raise(SIGTSTP);
    ::tcgetattr(STDIN_FILENO, &self.found);
    self.watch_signals();
    self.mark_pastes(true);
    self.take_terminal();
    return CC_REDISPLAY;
  }

  // The terminal hands over keys and shows none of them, while a line is edited and between two
  // lines: in its line mode a Ctrl-D typed then would be lost, and echoes stand in an answer.
  // Ctrl-Z makes no signal while a line is edited. The editor takes the terminal's settings over
  // when it first sees them, and after a shell has had them: only then a change lasts.
  void take_terminal() {
    ::el_wset(editor.get(), EL_PREP_TERM, 1);
    ::el_wset(editor.get(), EL_SETTY, L"-x", L"-icanon", L"-echo", nullptr);
    ::el_wset(editor.get(), EL_SETTY, L"-d", L"susp=", nullptr);
  }

  // What a terminal may not know is not sent to one that says it knows little.
  static bool knows_pastes() {
    const char* kind = std::getenv("TERM");
    return kind && *kind && std::strcmp(kind, "dumb") != 0;
  }

  void mark_pastes(bool on) {
    if (knows_pastes()) show(on ? kMarkPastes : kLeavePastes);
  }

  void watch_signals() {
    guard.emplace(::fileno(screen.get()), found, knows_pastes() ? kLeavePastes : "");
  }

  void show(const char* text) {
    std::fputs(text, screen.get());
    std::fflush(screen.get());
  }

  void bind(const wchar_t* keys, const wchar_t* function) {
    ::el_wset(editor.get(), EL_BIND, keys, function, nullptr);
  }
};

LineEditor::LineEditor() : impl_(std::make_unique<Impl>()) {
  // The editor shows characters as the locale has them; Ingot speaks UTF-8 whatever it is.
  if (!std::setlocale(LC_CTYPE, "C.UTF-8")) std::setlocale(LC_CTYPE, "");
  char terminal[256];
  if (const int error = ::ttyname_r(STDIN_FILENO, terminal, sizeof terminal); error != 0)
    fail(ErrorCode::kSystem, "[stdin] the terminal has no name: {}", std::strerror(error));
  Impl& self = *impl_;
  if (::tcgetattr(STDIN_FILENO, &self.found) != 0)
    fail(ErrorCode::kSystem, "[stdin] the terminal {} has no settings: {}", terminal,
         std::strerror(errno));
  self.screen.reset(std::fopen(terminal, "we"));
  if (!self.screen)
    fail(ErrorCode::kSystem, "[stdin] {} cannot be written: {}", terminal, std::strerror(errno));
  self.history.reset(::history_winit());
  self.editor.reset(::el_init("ingot", stdin, self.screen.get(), self.screen.get()));
  if (!self.editor || !self.history)
    fail(ErrorCode::kSystem, "[stdin] no line editor on {}", terminal);
  EditLine* const editor = self.editor.get();
  HistEventW event;
  ::history_w(self.history.get(), &event, H_SETSIZE, kHistory);
  ::history_w(self.history.get(), &event, H_SETUNIQUE, 1);
  ::el_wset(editor, EL_CLIENTDATA, &self);
  ::el_wset(editor, EL_PROMPT, prompt);
  ::el_wset(editor, EL_EDITOR, L"emacs");
  ::el_wset(editor, EL_HIST, ::history_w, self.history.get());
  ::el_wset(editor, EL_GETCFN, Impl::read_key);
  ::el_wset(editor, EL_ADDFN, L"ingot-paste", L"Take what is pasted", Impl::paste);
  ::el_wset(editor, EL_ADDFN, L"ingot-suspend", L"Stop until fg", Impl::suspend);
  self.watch_signals();
  self.take_terminal();
  self.bind(kPasteBegin, L"ingot-paste");
  self.bind(L"^Z", L"ingot-suspend");
  self.bind(L"^I", L"ed-insert");
  self.bind(L"^R", L"em-inc-search-prev");
  self.bind(L"\x1b[1;5C", L"em-next-word");  // with Ctrl
  self.bind(L"\x1b[1;5D", L"ed-prev-word");
}

LineEditor::~LineEditor() = default;

std::optional<std::string> LineEditor::ask() {
  Impl& self = *impl_;
  while (true) {
    // Keys that are typed as soon as the prompt is seen are the editor's.
    ::el_wset(self.editor.get(), EL_PREP_TERM, 1);
    self.mark_pastes(true);
    int count = 0;
    const wchar_t* line = ::el_wgets(self.editor.get(), &count);
    self.mark_pastes(false);
    if (interrupted()) {
      const LineInfoW* typed = ::el_wline(self.editor.get());
      self.show(typed->lastchar == typed->buffer ? "\n(Ctrl-D leaves)\n" : "\n");
      clear_interrupt();
      continue;
    }
    if (!line || count <= 0) {
      self.show("\n");
      return std::nullopt;
    }
    std::string text;
    for (int i = 0; i < count; ++i) append_utf8(text, static_cast<char32_t>(line[i]));
    if (text.ends_with('\n')) text.pop_back();
    if (is_blank(text)) continue;
    HistEventW event;
    ::history_w(self.history.get(), &event, H_ENTER, line);
    return text;
  }
}

void LineEditor::take_typed() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  while (::poll(&input, 1, 0) > 0 && impl_->read_some()) {
  }
}

}  // namespace ingot::cli
