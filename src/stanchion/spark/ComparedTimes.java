package stanchion;

import org.apache.spark.sql.catalyst.expressions.BinaryComparison;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.IsNotNull;
import org.apache.spark.sql.catalyst.expressions.IsNull;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.MicrosToTimestamp;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.DataTypes;
import scala.Function1;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

/**
 * Compares the microseconds that times are made of: {@code timestamp_micros(x) > TIMESTAMP '...'} becomes
 * {@code x > ...}. Both are the same, as Spark's times are microseconds since 1970 in UTC.
 */
public class ComparedTimes extends Rule {
    public TreeNode apply(TreeNode plan) {
        return ((LogicalPlan) plan).transformAllExpressions(new Comparisons());
    }

    static boolean isMade(Object one) {
        return one instanceof MicrosToTimestamp
                && ((Expression) ((MicrosToTimestamp) one).child()).dataType().equals(DataTypes.LongType);
    }

    static boolean isConstant(Object one) {
        return one instanceof Literal && ((Literal) one).dataType().equals(DataTypes.TimestampType);
    }

    public static class Comparisons extends AbstractPartialFunction {
        public boolean isDefinedAt(Object one) {
            if (!(one instanceof BinaryComparison || one instanceof In || one instanceof InSet
                    || one instanceof IsNull || one instanceof IsNotNull)) {
                return false;
            }
            boolean made = false;
            Iterator parts = ((Expression) one).children().iterator();
            while (parts.hasNext()) {
                Object part = parts.next();
                if (isMade(part)) {
                    made = true;
                } else if (!isConstant(part)) {
                    return false;
                }
            }
            return made;
        }

        public Object applyOrElse(Object one, Function1 otherwise) {
            return isDefinedAt(one) ? ((TreeNode) one).mapChildren(new Micros()) : otherwise.apply(one);
        }
    }

    public static class Micros extends AbstractFunction1 {
        public Object apply(Object time) {
            if (isMade(time)) {
                return ((MicrosToTimestamp) time).child();
            }
            return new Literal(((Literal) time).value(), DataTypes.LongType);
        }
    }
}
