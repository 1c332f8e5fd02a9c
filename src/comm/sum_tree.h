// A sum whose order is fixed by the numbers of its terms alone: leaf i of a binary tree in which
// neighbours are added level by level, an odd last one going up as it is. However many ranks hold
// the leaves, the additions are the same. [distributed.md §4]
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace ng {

/// Leaves [index · 2^level, (index + 1) · 2^level), those that exist.
struct TreeNode {
  int level = 0;
  int64_t index = 0;
  friend bool operator==(const TreeNode&, const TreeNode&) = default;
};

/// Takes sums of consecutive nodes from the left to the right and adds neighbours as soon as both
/// are whole. `Value` is what a sum lies in; `add(a, b)`: a += b.
template <class Value>
class SumTree {
 public:
  struct Sum {
    TreeNode node;
    Value value;
  };

  template <class Add>
  void push(TreeNode node, Value value, const Add& add) {
    while (!sums_.empty() && is_left_of(sums_.back().node, node)) {
      add(sums_.back().value, value);
      value = std::move(sums_.back().value);
      sums_.pop_back();
      node = {node.level + 1, node.index / 2};
    }
    sums_.push_back({node, std::move(value)});
  }

  /// The sum of all, after the last: the tree is empty then.
  template <class Add>
  [[nodiscard]] Value finish(const Add& add) {
    while (sums_.size() > 1) {
      add(sums_[sums_.size() - 2].value, sums_.back().value);
      sums_.pop_back();
    }
    Value whole = std::move(sums_.back().value);
    sums_.clear();
    return whole;
  }

  /// What has no neighbour yet, from the left to the right.
  [[nodiscard]] std::vector<Sum>& sums() { return sums_; }

 private:
  static bool is_left_of(TreeNode left, TreeNode right) {
    return left.level == right.level && left.index + 1 == right.index && left.index % 2 == 0;
  }

  std::vector<Sum> sums_;
};

/// The nodes that sums of the leaves [first, first + count) are left as, from the left to the
/// right.
[[nodiscard]] inline std::vector<TreeNode> nodes_of(int64_t first, int64_t count) {
  SumTree<char> tree;
  for (int64_t leaf = first; leaf < first + count; ++leaf)
    tree.push({0, leaf}, 0, [](char&, char) {});
  std::vector<TreeNode> nodes;
  for (const auto& sum : tree.sums()) nodes.push_back(sum.node);
  return nodes;
}

/// The most sums that there are at once while those leaves are taken, the new one among them.
[[nodiscard]] inline size_t most_sums_of(int64_t first, int64_t count) {
  SumTree<char> tree;
  size_t most = 0;
  for (int64_t leaf = first; leaf < first + count; ++leaf) {
    most = std::max(most, tree.sums().size() + 1);
    tree.push({0, leaf}, 0, [](char&, char) {});
  }
  return most;
}

}  // namespace ng
