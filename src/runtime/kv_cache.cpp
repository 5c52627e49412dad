#include "runtime/kv_cache.h"

#include "base/check.h"

#include <algorithm>
#include <utility>

namespace ingot {

namespace {

// Under a window, names without a page that are remembered, for every page. A name takes some
// hundred bytes, a page a million.
constexpr std::int64_t kNamesPerPage = 4;

}  // namespace

KvCache::KvCache(const Options& options)
    : page_tokens_(options.page_tokens),
      window_(static_cast<std::size_t>(options.reach.window)),
      sink_pages_(static_cast<std::size_t>(options.reach.sink_pages(options.page_tokens))),
      host_pages_(options.host_pages),
      pool_(options.pages),
      index_(
          options.pages * (options.reach.window == 0 ? 1 : 1 + kNamesPerPage) + options.host_pages,
          options.page_tokens),
      node_of_page_(static_cast<std::size_t>(options.pages), kNoNode) {
  copies_.reserve(most_copies());
  path_.reserve(static_cast<std::size_t>(index_.capacity()));
  free_host_.reserve(static_cast<std::size_t>(options.host_pages));
  path_.reserve(static_cast<std::size_t>(index_.capacity()));
  for (auto slot = static_cast<std::int32_t>(options.host_pages); slot > 0; --slot)
    free_host_.push_back(slot - 1);
}

CacheRoot KvCache::open_root(std::string_view salt, bool share) {
  if (share) {
    if (const auto known = root_of_.find(salt); known != root_of_.end()) {
      Root& root = roots_[static_cast<std::size_t>(known->second)];
      ++root.users;
      return {known->second, root.serial};
    }
  }
  std::int32_t index = static_cast<std::int32_t>(roots_.size());
  if (free_roots_.empty()) {
    roots_.emplace_back();
    free_roots_.reserve(roots_.capacity());
  } else {
    index = free_roots_.back();
    free_roots_.pop_back();
  }
  Root& root = roots_[static_cast<std::size_t>(index)];
  root = {.serial = index_.new_serial(), .salt = std::string(salt), .users = 1, .shared = share};
  if (share) root_of_.emplace(root.salt, index);
  return {index, root.serial};
}

void KvCache::close_root(CacheRoot root) {
  drop_user(root.index);
}

void KvCache::drop_user(std::int32_t index) {
  Root& root = roots_[static_cast<std::size_t>(index)];
  check(root.users > 0, "a root closed twice");
  if (--root.users > 0) return;
  if (root.shared) root_of_.erase(root.salt);
  root = {};
  free_roots_.push_back(index);
}

// The first page that the token after so many sees, sinks aside.
std::size_t KvCache::first_seen(std::size_t tokens) const {
  if (window_ == 0 || tokens < window_) return 0;
  return (tokens + 1 - window_) / static_cast<std::size_t>(page_tokens_);
}

// The longest beginning that is known by name and whose pages that will be seen are here, or can
// be: there is room for what lies in host memory.
KvCache::Found KvCache::find(CacheRoot root, std::span<const std::int32_t> tokens,
                             std::size_t most_pages) {
  const auto size = static_cast<std::size_t>(page_tokens_);
  const std::size_t most = std::min(most_pages, tokens.size() / size);
  Found best;
  std::int64_t taken = 0, borrowed = 0;  // of what is seen
  const auto count = [&](NodeId node, std::int64_t sign) {
    const PrefixNode& n = index_.at(node);
    const bool used = n.page != kNoPage && pool_.references(n.page) > 0;
    borrowed += used ? sign : 0;
    taken += !used && !n.is_name() ? sign : 0;
  };
  std::size_t seen = sink_pages_;
  std::size_t unbroken = 0;  // pages from here on are there
  std::uint64_t tip = root.serial;
  path_.clear();
  while (path_.size() < most) {
    const NodeId node = index_.find(tip, tokens.subspan(path_.size() * size, size));
    if (node == kNoNode) break;
    tip = index_.at(node).serial;
    path_.push_back(node);
    count(node, 1);
    if (index_.at(node).is_name()) {
      if (path_.size() <= sink_pages_) break;
      unbroken = path_.size();
    }
    for (const std::size_t first = first_seen(path_.size() * size); seen < first; ++seen)
      count(path_[seen], -1);
    if (unbroken <= seen && taken <= available()) best = {path_.size(), seen, borrowed};
  }
  return best;
}

std::size_t KvCache::attach(PageChain& chain, std::span<const std::int32_t> tokens,
                            std::size_t most_pages) {
  check(chain.pages.empty() && chain.published == 0, "a chain is attached at its start");
  const Found found = find(chain.root, tokens, most_pages);
  const auto path = std::span(path_).first(found.pages);
  const auto is_seen = [&](std::size_t i) { return i < sink_pages_ || i >= found.seen; };
  // All are taken before any comes from host memory, for which others may have to go.
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (!is_seen(i)) continue;
    if (index_.at(path[i]).page != kNoPage)
      use(path[i]);
    else
      unlink(on_host_, path[i]);
  }
  for (std::size_t i = 0; i < path.size(); ++i) {
    PrefixNode& n = index_.at(path[i]);
    if (n.is_name()) {
      unlink(names_, path[i]);
      append(names_, path[i]);
    }
    if (!is_seen(i)) {
      chain.pages.push_back(kNoPage);
      continue;
    }
    if (n.page == kNoPage) bring(path[i]);
    if (n.level < chain.retention.priority) {
      n.level = static_cast<std::uint8_t>(chain.retention.priority);
      n.expires = chain.retention.seconds > 0 ? now_ + chain.retention.seconds : 0;
    }
    chain.pages.push_back(n.page);
  }
  chain.given_back = std::min(found.seen, found.pages);
  chain.published = found.pages;
  chain.tip = path.empty() ? chain.root.serial : index_.at(path.back()).serial;
  return found.pages * static_cast<std::size_t>(page_tokens_);
}

bool KvCache::try_grow(PageChain& chain, std::size_t tokens) {
  if (hold(chain.pages.size(), tokens)) return true;
  const std::int64_t more = pages_for(tokens) - static_cast<std::int64_t>(chain.pages.size());
  if (more > available()) return false;
  for (std::int64_t i = 0; i < more; ++i) chain.pages.push_back(allocate());
  return true;
}

std::size_t KvCache::publish(PageChain& chain, std::span<const std::int32_t> tokens,
                             std::size_t computed) {
  const auto size = static_cast<std::size_t>(page_tokens_);
  std::size_t changed = chain.pages.size();
  if (chain.published == 0) chain.tip = chain.root.serial;
  while ((chain.published + 1) * size <= computed) {
    const auto text = tokens.subspan(chain.published * size, size);
    const PageId page = chain.pages[chain.published];
    NodeId node = index_.find(chain.tip, text);
    if (node == kNoNode) {
      if (index_.size() == index_.capacity()) {
        const NodeId name = names_.oldest;
        check(name != kNoNode, "a node for every page and slot");
        unlink(names_, name);
        forget(name);
      }
      node = index_.insert(chain.tip, text);
      PrefixNode& n = index_.at(node);
      n.root = chain.root.index;
      n.level = static_cast<std::uint8_t>(chain.retention.priority);
      n.expires = chain.retention.seconds > 0 ? now_ + chain.retention.seconds : 0;
      n.page = page;
      node_of_page_[static_cast<std::size_t>(page)] = node;
      ++roots_[static_cast<std::size_t>(n.root)].users;
    } else if (PrefixNode& n = index_.at(node); n.page == kNoPage) {
      // Computed again. A copy in host memory is not needed any more.
      if (n.is_name())
        unlink(names_, node);
      else
        unlink(on_host_, node);
      if (n.host >= 0) free_host_.push_back(std::exchange(n.host, -1));
      n.page = page;
      node_of_page_[static_cast<std::size_t>(page)] = node;
    } else {
      use(node);
      give_back(page, After::kForget);
      chain.pages[chain.published] = n.page;
      changed = std::min(changed, chain.published);
    }
    chain.tip = index_.at(node).serial;
    ++chain.published;
  }
  return changed;
}

void KvCache::shrink(PageChain& chain, std::size_t tokens) {
  const auto wanted = static_cast<std::size_t>(pages_for(tokens));
  check(chain.published <= wanted, "what has a name is computed");
  while (chain.pages.size() > wanted) {
    give_back(chain.pages.back(), After::kForget);
    chain.pages.pop_back();
  }
}

std::size_t KvCache::rewind(PageChain& chain, std::size_t tokens) {
  const auto size = static_cast<std::size_t>(page_tokens_);
  if (tokens >= chain.published * size) {
    shrink(chain, tokens);
    return tokens;
  }
  check(chain.given_back == 0, "what a window has passed does not come back");
  const std::size_t kept = tokens / size;
  while (chain.pages.size() > kept) {
    give_back(chain.pages.back(), After::kKeep);
    chain.pages.pop_back();
  }
  chain.published = kept;
  chain.tip = kept == 0 ? chain.root.serial : index_.at(node_of(chain.pages.back())).serial;
  return kept * size;
}

void KvCache::pass(PageChain& chain, std::size_t tokens) {
  const std::size_t first = first_seen(tokens);
  for (std::size_t page = std::max(chain.given_back, sink_pages_); page < first; ++page) {
    give_back(std::exchange(chain.pages[page], kNoPage), After::kKeep);
    chain.given_back = page + 1;
  }
}

bool KvCache::try_fork(const PageChain& chain, std::size_t tokens, PageChain& copy) {
  const std::size_t full = tokens / static_cast<std::size_t>(page_tokens_);
  const bool partial = tokens % static_cast<std::size_t>(page_tokens_) != 0;
  check(chain.published <= full && chain.pages.size() >= full + partial,
        "a chain is copied where it ends");
  PageId own = kNoPage;
  if (partial) {
    if (available() == 0) return false;
    own = allocate();
    copies_.push_back({PageCopy::Kind::kPage, chain.pages[full], own});
  }
  copy = chain;
  copy.pages.resize(full);
  for (const PageId page : copy.pages)
    if (page != kNoPage) pool_.add_reference(page);
  if (partial) copy.pages.push_back(own);
  return true;
}

// The deepest pages first: a page is of no use without those before it.
void KvCache::release(PageChain& chain, After after) {
  for (auto page = chain.pages.rbegin(); page != chain.pages.rend(); ++page)
    if (*page != kNoPage) give_back(*page, after);
  chain.pages.clear();
  chain.given_back = chain.published = 0;
  chain.tip = 0;
}

void KvCache::take_copies(std::vector<PageCopy>& copies) {
  copies.insert(copies.end(), copies_.begin(), copies_.end());
  copies_.clear();
}

void KvCache::forget_kept() {
  copies_.clear();
  for (Waiting* waiting : {&on_device_, &on_host_})
    for (auto& list : waiting->lists)
      while (list.oldest != kNoNode) {
        const NodeId node = list.oldest;
        const PageId page = index_.at(node).page;
        unlink(*waiting, node);
        forget(node);
        if (page == kNoPage) continue;
        --kept_;
        pool_.free(page);
      }
}

PageId KvCache::allocate() {
  if (pool_.free_pages() == 0 && kept_ > 0) evict_one();
  return pool_.try_allocate();
}

void KvCache::give_back(PageId page, After after) {
  if (!pool_.drop_reference(page)) return;
  const NodeId node = node_of(page);
  if (node != kNoNode && after == After::kKeep) return keep(node);
  if (node != kNoNode) forget(node);
  pool_.free(page);
}

void KvCache::keep(NodeId node) {
  PrefixNode& n = index_.at(node);
  if (n.expires > 0 && now_ >= n.expires) {
    n.level = Retention::kOrdinary;
    n.expires = 0;
  }
  append(on_device_, node);
  ++kept_;
}

// One more reference to a page that is on the device.
void KvCache::use(NodeId node) {
  const PageId page = index_.at(node).page;
  if (pool_.references(page) == 0) {
    unlink(on_device_, node);
    --kept_;
  }
  pool_.add_reference(page);
}

// A page comes back from host memory. It is in no list, so that making room does not take its slot.
void KvCache::bring(NodeId node) {
  const PageId page = allocate();
  PrefixNode& n = index_.at(node);
  copies_.push_back({PageCopy::Kind::kFromHost, n.host, page});
  free_host_.push_back(std::exchange(n.host, -1));
  n.page = page;
  node_of_page_[static_cast<std::size_t>(page)] = node;
  ++counted_.from_host;
}

void KvCache::evict_one() {
  const NodeId node = first_to_go(on_device_);
  unlink(on_device_, node);
  --kept_;
  const PageId page = index_.at(node).page;
  if (const std::int32_t slot = host_slot_for(index_.at(node)); slot >= 0) {
    copies_.push_back({PageCopy::Kind::kToHost, page, slot});
    index_.at(node).host = slot;
    index_.at(node).page = kNoPage;
    node_of_page_[static_cast<std::size_t>(page)] = kNoNode;
    append(on_host_, node);
    ++counted_.to_host;
  } else {
    lose_page(node);
  }
  pool_.free(page);
}

// A free slot, or that of a page worth no more; -1 when there is none.
std::int32_t KvCache::host_slot_for(const PrefixNode& node) {
  if (host_pages_ == 0) return -1;
  if (free_host_.empty()) {
    const NodeId other = first_to_go(on_host_);
    if (other == kNoNode || index_.at(other).level > node.level) return -1;
    unlink(on_host_, other);
    lose_page(other);
  }
  const std::int32_t slot = free_host_.back();
  free_host_.pop_back();
  return slot;
}

// Room was wanted for what is in no list.
void KvCache::lose_page(NodeId node) {
  if (window_ == 0) return forget(node);
  lose_contents(node);
  append(names_, node);
}

void KvCache::lose_contents(NodeId node) {
  PrefixNode& n = index_.at(node);
  if (n.is_name()) return;
  if (n.page != kNoPage) node_of_page_[static_cast<std::size_t>(n.page)] = kNoNode;
  if (n.host >= 0) free_host_.push_back(n.host);
  n.page = kNoPage;
  n.host = -1;
  ++counted_.evictions;
}

// What it held is not found any more. It is in no list.
void KvCache::forget(NodeId node) {
  lose_contents(node);
  drop_user(index_.at(node).root);
  index_.erase(node);
}

void KvCache::append(List& list, NodeId node) {
  index_.at(node).since = ++tick_;
  index_.at(node).older = list.newest;
  index_.at(node).newer = kNoNode;
  (list.newest == kNoNode ? list.oldest : index_.at(list.newest).newer) = node;
  list.newest = node;
}

void KvCache::unlink(List& list, NodeId node) {
  PrefixNode& n = index_.at(node);
  (n.older == kNoNode ? list.oldest : index_.at(n.older).newer) = n.newer;
  (n.newer == kNoNode ? list.newest : index_.at(n.newer).older) = n.older;
  n.older = n.newer = kNoNode;
}

// The oldest of the lowest priority, after those whose time is over became ordinary. Of these only
// the oldest of each priority are asked: others wait until it is their turn.
NodeId KvCache::first_to_go(Waiting& waiting) {
  for (std::size_t level = 0; level < kLevels; ++level) {
    const auto& timed = waiting.lists[2 * level + 1];
    while (timed.oldest != kNoNode && now_ >= index_.at(timed.oldest).expires) {
      const NodeId node = timed.oldest;
      unlink(waiting, node);
      index_.at(node).level = Retention::kOrdinary;
      index_.at(node).expires = 0;
      append(waiting, node);
    }
  }
  for (std::size_t level = 0; level < kLevels; ++level) {
    const NodeId a = waiting.lists[2 * level].oldest;
    const NodeId b = waiting.lists[2 * level + 1].oldest;
    if (a == kNoNode || b == kNoNode) {
      if (a != b) return a == kNoNode ? b : a;
      continue;
    }
    return index_.at(a).since < index_.at(b).since ? a : b;
  }
  return kNoNode;
}

KvCacheStatistics KvCache::statistics() const {
  KvCacheStatistics s = counted_;
  s.pages = pool_.capacity();
  s.free_pages = pool_.free_pages();
  s.kept_pages = kept_;
  s.host_pages = host_pages_;
  s.host_used = host_pages_ - static_cast<std::int64_t>(free_host_.size());
  return s;
}

std::vector<NodeId> KvCache::checked(const List& list) const {
  std::vector<NodeId> nodes;
  NodeId before = kNoNode;
  for (NodeId node = list.oldest; node != kNoNode; node = index_.at(node).newer) {
    check(index_.at(node).older == before && index_.at(node).serial != 0,
          "a list of pages is torn");
    nodes.push_back(before = node);
  }
  check(list.newest == before, "a list of pages is torn");
  return nodes;
}

// Marks the pages, or the host slots, of all that waits.
void KvCache::check_waiting(const Waiting& waiting, bool host, std::vector<char>& kept) const {
  for (std::size_t i = 0; i < waiting.lists.size(); ++i)
    for (const NodeId node : checked(waiting.lists[i])) {
      const PrefixNode& n = index_.at(node);
      check(n.level == i / 2 && (n.expires > 0) == (i % 2 == 1) && (n.page == kNoPage) == host &&
                (n.host >= 0) == host,
            "a page is in the wrong list");
      char& mark = kept.at(static_cast<std::size_t>(host ? n.host : n.page));
      check(!mark, "a page waits twice");
      mark = 1;
    }
}

void KvCache::check_integrity(std::span<const PageChain* const> chains) const {
  std::vector<std::int32_t> counted(node_of_page_.size(), 0);
  for (const PageChain* chain : chains)
    for (std::size_t i = 0; i < chain->pages.size(); ++i) {
      check((chain->pages[i] == kNoPage) == (i >= sink_pages_ && i < chain->given_back),
            "pages in order");
      if (chain->pages[i] != kNoPage) ++counted.at(static_cast<std::size_t>(chain->pages[i]));
    }
  std::vector<char> kept(node_of_page_.size(), 0);
  check_waiting(on_device_, false, kept);
  check(std::ranges::count(kept, 1) == kept_, "kept pages are counted");
  pool_.check_integrity(counted, kept);
  std::vector<char> host_used(static_cast<std::size_t>(host_pages_), 0);
  check_waiting(on_host_, true, host_used);
  for (const std::int32_t slot : free_host_) {
    check(!host_used.at(static_cast<std::size_t>(slot)), "a host slot is free and in use");
    host_used[static_cast<std::size_t>(slot)] = 1;
  }
  check(std::ranges::count(host_used, 1) == host_pages_, "a host slot is lost");
  index_.check_integrity();
  std::vector<std::int64_t> users(roots_.size(), 0);
  std::int64_t names = 0;
  for (NodeId node = 0; node < static_cast<NodeId>(index_.capacity()); ++node) {
    const PrefixNode& n = index_.at(node);
    if (n.serial == 0) continue;
    ++users.at(static_cast<std::size_t>(n.root));
    check(n.page == kNoPage || n.host < 0, "a page is on the device or in host memory");
    names += n.is_name();
    if (n.page != kNoPage) check(node_of(n.page) == node, "a page knows its name");
  }
  const std::vector<NodeId> listed = checked(names_);
  check(names == std::ssize(listed) &&
            std::ranges::all_of(listed, [&](NodeId node) { return index_.at(node).is_name(); }),
        "a name without a page can be forgotten");
  for (std::size_t p = 0; p < node_of_page_.size(); ++p)
    if (const NodeId node = node_of_page_[p]; node != kNoNode)
      check(index_.at(node).page == static_cast<PageId>(p), "a name knows its page");
  for (std::size_t r = 0; r < roots_.size(); ++r)
    check(users[r] <= roots_[r].users, "a root outlives its pages");
}

}  // namespace ingot
