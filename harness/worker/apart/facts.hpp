// What a judge knows of a variant that it never loads: the card, and which phases there are.
#pragma once
#include <nlohmann/json.hpp>

#include "contract/contract.hpp"
#include "protocol/json.hpp"
#include "worker/drive.hpp"

namespace ladder::apart {

/// The card has no phases and no `refuse` here.
struct Facts {
  Card card;
  Acts acts;  ///< for the request's element type
};

inline void to_json(nlohmann::json& to, const Facts& facts) {
  const Card& c = facts.card;
  const Arithmetic& a = c.arithmetic;
  nlohmann::json axes = nlohmann::json::array();
  for (const Axis& axis : c.axes) axes.push_back({axis.name, axis.values, axis.standard});
  to = {{"id", c.id},
        {"library", c.library},
        {"arithmetic", {int(a.form), a.distance_roundoff, a.input_roundoff, a.sum_roundoff, a.operands, a.centred}},
        {"axes", axes},
        {"metrics", c.metrics},
        {"reads_labels", c.reads_labels},
        {"prunes", c.prunes},
        {"implicit", c.implicit},
        {"moves_empty", c.moves_empty},
        {"labels_last", c.labels_last},
        {"gpus", c.gpus},
        {"draws", int(c.draws)},
        {"for_cuda", c.for_cuda},
        {"acts", facts.acts.bits}};
}

inline void from_json(const nlohmann::json& from, Facts& facts) {
  Card& c = facts.card;
  Arithmetic& a = c.arithmetic;
  const nlohmann::json& arithmetic = from.at("arithmetic");
  from.at("id").get_to(c.id);
  from.at("library").get_to(c.library);
  const int form = arithmetic.at(0), draws = from.at("draws");
  if (form < 0 || form > int(Arithmetic::Form::exact) || draws < 0 || draws > int(Draws::afkmc2))
    throw Error("the card has a form of arithmetic, or of draws, that is none");
  a.form = Arithmetic::Form(form);
  arithmetic.at(1).get_to(a.distance_roundoff);
  arithmetic.at(2).get_to(a.input_roundoff);
  arithmetic.at(3).get_to(a.sum_roundoff);
  arithmetic.at(5).get_to(a.centred);
  for (const nlohmann::json& axis : from.at("axes")) c.axes.push_back({axis.at(0), axis.at(1), axis.at(2)});
  from.at("metrics").get_to(c.metrics);
  from.at("reads_labels").get_to(c.reads_labels);
  from.at("prunes").get_to(c.prunes);
  from.at("implicit").get_to(c.implicit);
  from.at("moves_empty").get_to(c.moves_empty);
  from.at("labels_last").get_to(c.labels_last);
  from.at("gpus").get_to(c.gpus);
  c.draws = Draws(draws);
  from.at("for_cuda").get_to(c.for_cuda);
  from.at("acts").get_to(facts.acts.bits);
}

}  // namespace ladder::apart
