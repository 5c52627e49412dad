#include "runtime/kv_cache.h"

#include "base/check.h"

#include <algorithm>
#include <utility>

namespace ingot {

KvCache::KvCache(const Options& options)
    : page_tokens_(options.page_tokens),
      host_pages_(options.host_pages),
      pool_(options.pages),
      index_(options.pages + options.host_pages, options.page_tokens),
      node_of_page_(static_cast<std::size_t>(options.pages), kNoNode) {
  free_host_.reserve(static_cast<std::size_t>(options.host_pages));
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

std::size_t KvCache::attach(PageChain& chain, std::span<const std::int32_t> tokens,
                            std::size_t most_pages) {
  check(chain.pages.empty() && chain.published == 0, "a chain is attached at its start");
  const auto size = static_cast<std::size_t>(page_tokens_);
  const std::size_t most = std::min(most_pages, tokens.size() / size);
  chain.tip = chain.root.serial;
  while (chain.pages.size() < most) {
    const NodeId node = index_.find(chain.tip, tokens.subspan(chain.pages.size() * size, size));
    if (node == kNoNode) break;
    if (index_.at(node).page != kNoPage) {
      use(node);
    } else if (!bring(node)) {
      break;
    }
    PrefixNode& n = index_.at(node);
    if (n.level < chain.retention.priority) {
      n.level = static_cast<std::uint8_t>(chain.retention.priority);
      n.expires = chain.retention.seconds > 0 ? now_ + chain.retention.seconds : 0;
    }
    chain.pages.push_back(n.page);
    chain.tip = n.serial;
  }
  chain.published = chain.pages.size();
  return chain.pages.size() * size;
}

KvCache::Found KvCache::look(CacheRoot root, std::span<const std::int32_t> tokens,
                             std::size_t most_pages) {
  const auto size = static_cast<std::size_t>(page_tokens_);
  const std::size_t most = std::min(most_pages, tokens.size() / size);
  Found found;
  std::uint64_t tip = root.serial;
  while (found.pages < most) {
    const NodeId node = index_.find(tip, tokens.subspan(found.pages * size, size));
    if (node == kNoNode) break;
    const PrefixNode& n = index_.at(node);
    // Kept pages count as available, and so does the room for what is in host memory.
    if (n.page == kNoPage || pool_.references(n.page) == 0) ++found.taken;
    tip = n.serial;
    ++found.pages;
  }
  return found;
}

bool KvCache::try_grow(PageChain& chain, std::size_t tokens) {
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
      node = index_.insert(chain.tip, text);
      check(node != kNoNode, "a node for every page and slot");
      PrefixNode& n = index_.at(node);
      n.root = chain.root.index;
      n.level = static_cast<std::uint8_t>(chain.retention.priority);
      n.expires = chain.retention.seconds > 0 ? now_ + chain.retention.seconds : 0;
      n.page = page;
      node_of_page_[static_cast<std::size_t>(page)] = node;
      ++roots_[static_cast<std::size_t>(n.root)].users;
    } else if (PrefixNode& n = index_.at(node); n.page == kNoPage) {
      // Computed again while a copy lay in host memory: that one is not needed.
      unlink(on_host_, node);
      free_host_.push_back(std::exchange(n.host, -1));
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
  const std::size_t kept = std::max(tokens / size, chain.given_back);
  check(kept * size <= tokens, "what a window has passed stays passed");
  while (chain.pages.size() > kept) {
    give_back(chain.pages.back(), After::kKeep);
    chain.pages.pop_back();
  }
  chain.published = kept;
  chain.tip = chain.root.serial;
  if (kept > chain.given_back) chain.tip = index_.at(node_of(chain.pages.back())).serial;
  return kept * size;
}

void KvCache::pass(PageChain& chain, std::size_t first) {
  const std::size_t before = first / static_cast<std::size_t>(page_tokens_);
  for (; chain.given_back < before; ++chain.given_back)
    give_back(std::exchange(chain.pages[chain.given_back], kNoPage), After::kKeep);
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

// A page comes back from host memory. False when there is no room for it.
bool KvCache::bring(NodeId node) {
  if (available() == 0) return false;
  unlink(on_host_, node);  // so that making room does not take its slot
  const PageId page = allocate();
  PrefixNode& n = index_.at(node);
  copies_.push_back({PageCopy::Kind::kFromHost, n.host, page});
  free_host_.push_back(std::exchange(n.host, -1));
  n.page = page;
  node_of_page_[static_cast<std::size_t>(page)] = node;
  ++counted_.from_host;
  return true;
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
    forget(node);
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
    forget(other);
  }
  const std::int32_t slot = free_host_.back();
  free_host_.pop_back();
  return slot;
}

// What it held is not found any more. It is in no list.
void KvCache::forget(NodeId node) {
  const PrefixNode& n = index_.at(node);
  if (n.page != kNoPage) node_of_page_[static_cast<std::size_t>(n.page)] = kNoNode;
  if (n.host >= 0) free_host_.push_back(n.host);
  drop_user(n.root);
  index_.erase(node);
  ++counted_.evictions;
}

void KvCache::append(Waiting& waiting, NodeId node) {
  Waiting::List& list = waiting.of(index_.at(node));
  index_.at(node).since = ++tick_;
  index_.at(node).older = list.newest;
  index_.at(node).newer = kNoNode;
  (list.newest == kNoNode ? list.oldest : index_.at(list.newest).newer) = node;
  list.newest = node;
}

void KvCache::unlink(Waiting& waiting, NodeId node) {
  PrefixNode& n = index_.at(node);
  Waiting::List& list = waiting.of(n);
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

// Marks the pages, or the host slots, of all that waits.
void KvCache::check_waiting(const Waiting& waiting, bool host, std::vector<char>& kept) const {
  for (std::size_t i = 0; i < waiting.lists.size(); ++i) {
    NodeId before = kNoNode;
    const Waiting::List& list = waiting.lists[i];
    for (NodeId node = list.oldest; node != kNoNode; node = index_.at(node).newer) {
      const PrefixNode& n = index_.at(node);
      check(
          n.older == before && n.level == i / 2 && (n.expires > 0) == (i % 2 == 1) && n.serial != 0,
          "a list of pages is torn");
      check((n.page == kNoPage) == host && (n.host >= 0) == host, "a page is in the wrong list");
      char& mark = kept.at(static_cast<std::size_t>(host ? n.host : n.page));
      check(!mark, "a page waits twice");
      mark = 1;
      before = node;
    }
    check(list.newest == before, "a list of pages is torn");
  }
}

void KvCache::check_integrity(std::span<const PageChain* const> chains) const {
  std::vector<std::int32_t> counted(node_of_page_.size(), 0);
  for (const PageChain* chain : chains)
    for (std::size_t i = 0; i < chain->pages.size(); ++i) {
      check((chain->pages[i] == kNoPage) == (i < chain->given_back), "pages in order");
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
  for (NodeId node = 0; node < static_cast<NodeId>(index_.capacity()); ++node) {
    const PrefixNode& n = index_.at(node);
    if (n.serial == 0) continue;
    ++users.at(static_cast<std::size_t>(n.root));
    check((n.page == kNoPage) != (n.host < 0), "a named page is on the device or in host memory");
    if (n.page != kNoPage) check(node_of(n.page) == node, "a page knows its name");
  }
  for (std::size_t p = 0; p < node_of_page_.size(); ++p)
    if (const NodeId node = node_of_page_[p]; node != kNoNode)
      check(index_.at(node).page == static_cast<PageId>(p), "a name knows its page");
  for (std::size_t r = 0; r < roots_.size(); ++r)
    check(users[r] <= roots_[r].users, "a root outlives its pages");
}

}  // namespace ingot
