#pragma once

#include "plan/kv_reach.h"
#include "runtime/batch.h"
#include "runtime/block_pool.h"
#include "runtime/prefix_index.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ingot {

// How long pages that nobody uses are kept: the lowest priority goes first, of equals the one that
// was used longest ago.
struct Retention {
  static constexpr int kOrdinary = 35;
  static constexpr int kHighest = 100;
  int priority = kOrdinary;  // 0 to 100
  double seconds = 0;        // how long it counts; 0: until the page goes
};

// Whose pages a request may share.
struct CacheRoot {
  std::int32_t index = -1;
  std::uint64_t serial = 0;
};

// A sequence's pages: what a position's K and V are in, and what of it others may find.
struct PageChain {
  CacheRoot root;
  Retention retention;
  std::vector<PageId> pages;   // page i holds tokens i * page_tokens ..; kNoPage where given back
  std::size_t given_back = 0;  // a window has passed the pages before it; those of sinks stay
  std::size_t published = 0;   // full pages that have a name, from the front
  std::uint64_t tip = 0;       // name of the last of them
};

struct KvCacheStatistics {
  std::int64_t pages = 0;       // of the device
  std::int64_t free_pages = 0;  // hold nothing
  std::int64_t kept_pages = 0;  // used by nobody, still found by what they hold
  std::int64_t host_pages = 0;  // slots of host memory
  std::int64_t host_used = 0;
  std::int64_t evictions = 0;  // pages forgotten to make room
  std::int64_t to_host = 0;    // pages moved there
  std::int64_t from_host = 0;
};

// Pages with reference counts, found again by what they hold: full pages of every sequence get a
// name, and stay after it until their room is needed. Then they move to host memory if there is
// any, or are forgotten; under a window the name stays, since what comes after it is of use without
// the page. Pure bookkeeping: what has to move stands in take_copies(), in order.
// Allocates nothing per step. One thread.
class KvCache {
 public:
  struct Options {
    std::int64_t pages = 0;       // of the device
    std::int64_t host_pages = 0;  // slots of host memory
    std::int64_t page_tokens = 0;
    KvReach reach;
  };
  explicit KvCache(const Options& options);

  // Pages are shared under one salt; without sharing, a request finds its own pages only.
  CacheRoot open_root(std::string_view salt, bool share);
  void close_root(CacheRoot root);

  // The start of a sequence: the chain begins after as many of `tokens` as have been computed,
  // `most_pages` at most, and of these pages has what the next token sees. Returns how many tokens.
  std::size_t attach(PageChain& chain, std::span<const std::int32_t> tokens,
                     std::size_t most_pages);
  // How many pages attach() would share with others who use them.
  std::int64_t borrowed(CacheRoot root, std::span<const std::int32_t> tokens,
                        std::size_t most_pages) {
    return find(root, tokens, most_pages).borrowed;
  }
  // Pages at the chain's end so that it holds `tokens`. False, and nothing, when there are not so
  // many.
  [[nodiscard]] bool try_grow(PageChain& chain, std::size_t tokens);
  // The first `computed` tokens have K and V: full pages get their names. Where others computed the
  // same meanwhile, the chain takes theirs. Returns the first page that changed so, or the chain's
  // length.
  std::size_t publish(PageChain& chain, std::span<const std::int32_t> tokens, std::size_t computed);
  // Pages past the first `tokens` tokens are given back: a draft was wrong.
  void shrink(PageChain& chain, std::size_t tokens);
  // Only the first `tokens` tokens stay, names included; no window has passed any. Returns how many
  // of them still have K and V: a page that has a name is not written on again.
  std::size_t rewind(PageChain& chain, std::size_t tokens);
  // Of a chain of `tokens` tokens, pages that no later token sees are given back.
  void pass(PageChain& chain, std::size_t tokens);
  // `copy` begins where `chain` is after `tokens` tokens: full pages are shared, a page that both
  // will write on is copied. False, and nothing, when there is no page for the copy.
  [[nodiscard]] bool try_fork(const PageChain& chain, std::size_t tokens, PageChain& copy);
  // All pages are given back; those with a name stay as long as there is room, or, where nobody
  // will ask for them again, go with their last user.
  enum class After : std::uint8_t { kKeep, kForget };
  void release(PageChain& chain, After after);

  // Seconds on the clock by which retention counts.
  void set_time(double now) { now_ = now; }
  // What a step does before anything else, in order; the list is empty after. Pages allocated since
  // are written by that step.
  void take_copies(std::vector<PageCopy>& copies);
  // As a rule: each page is moved once in a step.
  std::size_t most_copies() const { return node_of_page_.size(); }
  // The step with the last copies failed: what they moved is unknown, so all that nobody uses is
  // forgotten.
  void forget_kept();

  // Pages that try_grow() could hand out.
  std::int64_t available() const { return pool_.free_pages() + kept_; }
  std::int64_t capacity() const { return pool_.capacity(); }
  std::int64_t page_tokens() const { return page_tokens_; }
  // Whether `pages` of them hold so many tokens; asked each step of each sequence, and a division
  // of 64 bits costs as much as all else that is asked.
  bool hold(std::size_t pages, std::size_t tokens) const {
    return pages * static_cast<std::size_t>(page_tokens_) >= tokens;
  }
  std::int64_t pages_for(std::size_t tokens) const {
    return (static_cast<std::int64_t>(tokens) + page_tokens_ - 1) / page_tokens_;
  }
  // Pages of the chain that are there.
  std::int64_t held(const PageChain& chain) const {
    const std::size_t gone = chain.given_back - std::min(chain.given_back, sink_pages_);
    return static_cast<std::int64_t>(chain.pages.size() - gone);
  }
  KvCacheStatistics statistics() const;
  // Throws Error{kBug} unless the books agree with `chains`, all chains that hold pages.
  void check_integrity(std::span<const PageChain* const> chains) const;

 private:
  static constexpr int kLevels = Retention::kHighest + 1;
  struct List {
    NodeId oldest = kNoNode;
    NodeId newest = kNoNode;
  };
  // Pages that wait for somebody, or for their end: by priority, those whose priority counts for
  // some time only apart.
  struct Waiting {
    std::array<List, std::size_t{2} * kLevels> lists;
    List& of(const PrefixNode& node) {
      return lists[2 * std::size_t{node.level} + (node.expires > 0 ? 1 : 0)];
    }
  };
  struct Root {
    std::uint64_t serial = 0;
    std::string salt;
    std::int64_t users = 0;  // requests and nodes
    bool shared = false;
  };

  // A beginning that is known, of which the next token sees `sink_pages_` pages and those from
  // `seen` on; its nodes stand in path_.
  struct Found {
    std::size_t pages = 0;
    std::size_t seen = 0;
    std::int64_t borrowed = 0;  // pages that others use
  };

  Found find(CacheRoot root, std::span<const std::int32_t> tokens, std::size_t most_pages);
  std::size_t first_seen(std::size_t tokens) const;
  NodeId node_of(PageId page) const { return node_of_page_[static_cast<std::size_t>(page)]; }
  PageId allocate();
  void give_back(PageId page, After after);
  void keep(NodeId node);
  void use(NodeId node);
  void bring(NodeId node);
  void evict_one();
  std::int32_t host_slot_for(const PrefixNode& node);
  void lose_page(NodeId node);
  void lose_contents(NodeId node);
  void forget(NodeId node);
  void drop_user(std::int32_t root);
  void append(List& list, NodeId node);
  void unlink(List& list, NodeId node);
  void append(Waiting& waiting, NodeId node) { append(waiting.of(index_.at(node)), node); }
  void unlink(Waiting& waiting, NodeId node) { unlink(waiting.of(index_.at(node)), node); }
  NodeId first_to_go(Waiting& waiting);
  void check_waiting(const Waiting& waiting, bool host, std::vector<char>& kept) const;
  std::vector<NodeId> checked(const List& list) const;

  std::int64_t page_tokens_;
  std::size_t window_;
  std::size_t sink_pages_;
  std::int64_t host_pages_;
  BlockPool pool_;
  PrefixIndex index_;
  std::vector<NodeId> node_of_page_;
  std::vector<std::int32_t> free_host_;
  Waiting on_device_;
  Waiting on_host_;
  List names_;                // nodes whose page is gone, the one asked for last at the end
  std::vector<NodeId> path_;  // by find()
  std::int64_t kept_ = 0;     // nodes in on_device_
  std::vector<PageCopy> copies_;
  std::vector<Root> roots_;
  std::vector<std::int32_t> free_roots_;
  std::map<std::string, std::int32_t, std::less<>> root_of_;
  double now_ = 0;
  std::uint64_t tick_ = 0;
  KvCacheStatistics counted_;
};

}  // namespace ingot
