package org.rocketstore.interop;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.Arrays;

/** What differs from release to release, or is not public: found by name and number of arguments. */
final class Reflect {
    private Reflect() {
    }

    static Object call(Object target, String name, Object... args) throws Exception {
        Method method = find(target, name, args.length);
        if (method == null) {
            throw new NoSuchMethodException(target.getClass() + "." + name + ", " + args.length + " arguments");
        }
        return method.invoke(target, args);
    }

    /** Null where this release has no such method. */
    static Object callIfAny(Object target, String name, Object... args) throws Exception {
        Method method = find(target, name, args.length);
        return method == null ? null : method.invoke(target, args);
    }

    static boolean has(Object target, String name, int parameters) {
        return find(target, name, parameters) != null;
    }

    static Object get(Object target, String field) throws Exception {
        Field found = field(target.getClass(), field);
        return found == null ? null : found.get(target);
    }

    static void set(Object target, String field, Object value) throws Exception {
        field(target.getClass(), field).set(target, value);
    }

    /** The first of these classes that the release has. */
    static Class<?> any(String... names) throws ClassNotFoundException {
        for (String name : names) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException e) {
                continue;
            }
        }
        throw new ClassNotFoundException(String.join(" or ", names));
    }

    /** An instance by the constructor with the most parameters that {@code args} suffice for. */
    static Object construct(Class<?> type, Object... args) throws Exception {
        Constructor<?> widest = null;
        for (Constructor<?> one : type.getConstructors()) {
            int count = one.getParameterCount();
            boolean fits = count <= args.length && (count == 0 || one.getParameterTypes()[0].isInstance(args[0]));
            if (fits && (widest == null || count > widest.getParameterCount())) {
                widest = one;
            }
        }
        return widest.newInstance(Arrays.copyOf(args, widest.getParameterCount()));
    }

    private static Method find(Object target, String name, int parameters) {
        for (Class<?> type = target.getClass(); type != null; type = type.getSuperclass()) {
            for (Method method : type.getDeclaredMethods()) {
                if (method.getName().equals(name) && method.getParameterCount() == parameters
                    && !method.isBridge()) {
                    method.setAccessible(true);
                    return method;
                }
            }
        }
        return null;
    }

    private static Field field(Class<?> start, String name) {
        for (Class<?> type = start; type != null; type = type.getSuperclass()) {
            for (Field field : type.getDeclaredFields()) {
                if (field.getName().equals(name)) {
                    field.setAccessible(true);
                    return field;
                }
            }
        }
        return null;
    }
}
