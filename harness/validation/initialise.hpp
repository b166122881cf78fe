// Initial centroids drawn from the points, held against the draw that the seed stands for.
//
// A draw is a function of the problem's seed, its points and the rows drawn before, so that every device can make the
// same one. With words(t, m) = draw(seed, stream, t, m) of base/philox.hpp and
//     u(t, m) = uniform_double(bits64(words[0], words[1])),   a(t, m) = uniform_double(bits64(words[2], words[3])),
// row t of K is drawn as follows. "The row at u of weights w" is the lowest i with w_0 + ... + w_i > u (w_0 + ... +
// w_N-1): a row of weight zero is never drawn. d(i, t) is the squared distance (cosine: 1 - cos) of point i to the
// nearest of the t rows drawn before.
//
//   uniform    the rows that initial_centroids (workloads/generate.hpp) draws, which the caller hands over.
//   kmeanspp   Stream::kmeanspp. Row 0 is int(u(0, 0) * double(N)). Row t is the row at u(t, 0) of weights d(i, t).
//              Source: Arthur and Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007.
//   afkmc2     Stream::afkmc2. Row 0 is int(u(0, 0) * double(N)). The weights q(i) = d(i, 1) + sum_j d(j, 1) / N are
//              those of all candidates; where they are all zero, candidates are int(u * double(N)). For row t the chain
//              begins with x = the row at u(t, 0) of q, and for m = 1 .. afkmc2_chain - 1 the row y at u(t, m) of q
//              takes the place of x where d(y, t) q(x) > a(t, m) d(x, t) q(y). Its last x is the row.
//              Source: Bachem, Lucic, Hassani, Krause, "Fast and provably good seedings for k-means", NIPS 2016.
//   both       Where that row would repeat a point drawn before (all weights zero; a chain that ends at distance zero),
//              it is the lowest row that repeats none, or where there is none, the lowest that was not drawn itself.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "contract/problem.hpp"
#include "validation/rules.hpp"

namespace ladder {

/// Candidates that afkmc2 looks at for each centroid, the first included.
constexpr int afkmc2_chain = 200;

/// The rows (k) that kmeanspp or afkmc2 draw, in fp64. Throws Error for other ways to draw.
template <class T>
std::vector<int32_t> draw_reference(const Problem<T>& problem, Draws draws);

struct InitialReport {
  int rows_checked = 0;
  int rows_wrong = 0;
  int ties = 0;       ///< rows that are not the reference's, but within the bound of its draw
  std::string first;  ///< the first wrong row in a sentence, empty where there is none
  bool ok() const { return rows_wrong == 0; }
};

/// Checks the rows `chosen` (k) and `centroids` (k x d) that `initialise` left. Wrong is a row that is not one of
/// 0 .. n - 1; one drawn twice; one whose point was drawn before though another was left; one whose centroid is not
/// that point bit by bit; and one that the seed does not draw, given the rows before it. For uniform that is one whose
/// centroid is not that of `uniform` (k x d, else not looked at) bit by bit. For kmeanspp and afkmc2 it is one that no
/// arithmetic as declared can draw: sums of weights lie within a bound (initialise.cpp derives it) of the reference's,
/// so that only a row whose interval of them comes so near to the drawn number, or a chain in which one comparison is
/// so near, may differ; such rows are ties. Throws Error where no bound can be stated or a row is too large for a
/// double.
template <class T>
InitialReport check_initialisation(const Problem<T>& problem, Draws draws, const int32_t* chosen, const T* centroids,
                                   const T* uniform, const Rules& rules);

}  // namespace ladder
